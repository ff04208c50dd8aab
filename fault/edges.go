// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package fault

// Edge is what a kind becomes where errors leave the process.
type Edge struct {
	HTTP int    // status of a problem+json answer, whose code is the kind's name
	RPC  int    // JSON-RPC code, as the A2A bindings number them
	A2A  string // name of the A2A error
	MCP  int    // JSON-RPC code in MCP, which has no codes for tasks
	Exit int    // exit code of the command line
	// Retry says that the same request may succeed later, unchanged.
	Retry bool
}

// JSON-RPC codes of the edge table.
const (
	rpcTaskNotFound = -32001
	rpcUnsupported  = -32004
	rpcParams       = -32602
	rpcInternal     = -32603
)

// Names of the A2A errors of the edge table.
const (
	a2aTaskNotFound = "TaskNotFoundError"
	a2aUnsupported  = "UnsupportedOperationError"
	a2aParams       = "InvalidParamsError"
	a2aInternal     = "InternalError"
)

// EdgeOf returns the one mapping of k to HTTP, A2A, JSON-RPC, MCP and exit codes. A
// kind that is not in the table is answered as Unknown.
//
// Two things depend on the request and are not here: an A2A cancel of a finished
// task is TaskNotCancelable (-32002), and Fenced and CancelRequested are answers to
// attempts, so that an edge which meets one has a bug and says "internal error".
func EdgeOf(k Kind) Edge {
	switch k {
	case Invalid:
		return Edge{HTTP: 400, RPC: rpcParams, A2A: a2aParams, MCP: rpcParams, Exit: 2}
	case NotFound:
		return Edge{HTTP: 404, RPC: rpcTaskNotFound, A2A: a2aTaskNotFound, MCP: rpcParams, Exit: 3}
	case Forbidden: // A2A and MCP do not tell what is not yours
		return Edge{HTTP: 403, RPC: rpcTaskNotFound, A2A: a2aTaskNotFound, MCP: rpcParams, Exit: 3}
	case Exists:
		return Edge{HTTP: 409, RPC: rpcParams, A2A: a2aParams, MCP: rpcParams, Exit: 4}
	case Conflict:
		return Edge{HTTP: 409, RPC: rpcInternal, A2A: a2aInternal, MCP: rpcInternal, Exit: 4}
	case Finished:
		return Edge{HTTP: 409, RPC: rpcUnsupported, A2A: a2aUnsupported, MCP: rpcParams, Exit: 4}
	case NoInput, Closed:
		return Edge{HTTP: 409, RPC: rpcUnsupported, A2A: a2aUnsupported, MCP: rpcParams, Exit: 1}
	case Unsupported:
		return Edge{HTTP: 501, RPC: rpcUnsupported, A2A: a2aUnsupported, MCP: rpcParams, Exit: 1}
	case Unavailable:
		return Edge{HTTP: 503, RPC: rpcInternal, A2A: a2aInternal, MCP: rpcInternal, Exit: 1, Retry: true}
	case Canceled:
		return Edge{HTTP: 499, RPC: rpcInternal, A2A: a2aInternal, MCP: rpcInternal, Exit: 1}
	case Timeout:
		return Edge{HTTP: 504, RPC: rpcInternal, A2A: a2aInternal, MCP: rpcInternal, Exit: 1}
	case Unknown, Fenced, CancelRequested, UnknownOutcome:
	}
	return Edge{HTTP: 500, RPC: rpcInternal, A2A: a2aInternal, MCP: rpcInternal, Exit: 1}
}

// Kinds lists every kind in the order of its number.
func Kinds() []Kind {
	all := make([]Kind, 0, kinds)
	for k := range kinds {
		all = append(all, k)
	}
	return all
}

// ParseKind returns the kind of a stable name, as [Kind.String] gives it.
func ParseKind(name string) (Kind, bool) {
	for k, n := range names {
		if n == name {
			return Kind(k), true
		}
	}
	return Unknown, false
}
