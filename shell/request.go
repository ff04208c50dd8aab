// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/outlive-dev/outlive/fault"
)

// Cookie is the environment variable that names the run in every process of its
// command, and in its supervisor.
const Cookie = "OUTLIVE_RUN"

// Defaults of a request's zero values.
const (
	DefaultGrace     = 2 * time.Second
	DefaultDrain     = 500 * time.Millisecond
	DefaultDrainCap  = 2 * time.Second
	DefaultSpoolHead = int64(1 << 20)
	DefaultSpoolTail = int64(16 << 20)
)

const (
	// NoTimeout is the Timeout of a command that may run as long as it takes.
	NoTimeout time.Duration = 0
	// AtOnce is the Grace that kills without asking first.
	AtOnce time.Duration = -1
)

// RunID names one execution of one command: 1 to 64 of the characters a-z, 0-9 and
// '-'. It is made of a task's id and the number of the run ("sh-0k3...-r1") and is
// never used again.
type RunID string

// Valid returns an error of kind fault.Invalid unless the id is well formed.
func (id RunID) Valid() error {
	if len(id) == 0 || len(id) > 64 {
		return fault.Newf(fault.Invalid, "run id: %d characters, want 1 to 64", len(id))
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-':
		default:
			return fault.Newf(fault.Invalid, "run id %q: bad character %q", string(id), c)
		}
	}
	return nil
}

// Fence orders the owners of a run: a backend keeps the highest it has seen and
// refuses smaller ones.
type Fence struct {
	Generation int64 `json:"generation"`
	Attempt    int64 `json:"attempt"`
}

// Less reports whether f is older than g.
func (f Fence) Less(g Fence) bool {
	if f.Generation != g.Generation {
		return f.Generation < g.Generation
	}
	return f.Attempt < g.Attempt
}

// Leftovers says what happens to processes that a command leaves behind.
type Leftovers string

const (
	// StopLeftovers stops them and reports their number; the zero value means this.
	StopLeftovers Leftovers = "stop"
	// KeepLeftovers leaves them alone.
	KeepLeftovers Leftovers = "keep"
)

// OnLimit says what happens when output exceeds what is kept.
type OnLimit string

const (
	// Collapse keeps the head and the tail; the zero value means this.
	Collapse OnLimit = "collapse"
	// StopAtLimit stops the command with cause output_limit.
	StopAtLimit OnLimit = "stop"
)

// Output bounds what is kept of a command's output. Bytes are always counted.
type Output struct {
	// SpoolHead is how many bytes are kept from the start. Defaults to DefaultSpoolHead.
	SpoolHead int64 `json:"spool_head,omitempty"`
	// SpoolTail is how many bytes at least are kept from the end. Defaults to DefaultSpoolTail.
	SpoolTail int64 `json:"spool_tail,omitempty"`
	// OnLimit chooses between dropping the middle and stopping. Defaults to Collapse.
	OnLimit OnLimit `json:"on_limit,omitempty"`
	// Limit is the number of bytes after which StopAtLimit stops. Required with
	// StopAtLimit, not allowed without.
	Limit int64 `json:"limit,omitempty"`
}

// Umask is a file mode creation mask, or the zero value for the supervisor's own.
type Umask uint16

const umaskSet Umask = 1 << 15

// UmaskOf returns the Umask with the given permission bits.
func UmaskOf(bits uint32) Umask { return umaskSet | Umask(bits&0o777) }

// Bits returns the permission bits; ok is false for the zero value.
func (u Umask) Bits() (bits uint32, ok bool) { return uint32(u & 0o777), u&umaskSet != 0 }

// TTY is the size of a terminal.
type TTY struct {
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

// Limits bound what a command may use. Zero is no limit.
type Limits struct {
	// Memory is how many bytes all its processes may use together. When that is not
	// enough all of them are killed, and the exit's Reason is [ReasonOutOfMemory].
	Memory int64 `json:"memory,omitempty"`
	// Pids is how many processes and threads it may have at once.
	Pids int64 `json:"pids,omitempty"`
	// MilliCPU is how many thousandths of a processor it may use, 1500 for one and a half.
	MilliCPU int64 `json:"milli_cpu,omitempty"`
	// Files is how many files each of its processes may have open.
	Files int64 `json:"files,omitempty"`
	// Processes is how many processes its user may have before it can make no more.
	Processes int64 `json:"processes,omitempty"`
}

// Request is a command to run. The zero value is not usable: exactly one of Command
// and Argv, and Dir, are required.
type Request struct {
	// Command is shell text. It is never put into an argument list.
	Command string `json:"command,omitempty"`
	// Argv is a program and its arguments, executed without a shell.
	Argv []string `json:"argv,omitempty"`
	// Dir is the absolute directory the command runs in. Required.
	Dir string `json:"dir"`
	// Env is added to the environment. Names are recorded, values are not.
	Env map[string]string `json:"env,omitempty"`
	// Environ, when not nil, is the whole environment as "NAME=value" and replaces
	// the allow-list of inherited variables and the defaults for unattended tools.
	// It is never stored and no part of the digest.
	Environ []string `json:"-"`
	// Stdin is given to the command as its standard input. Defaults to /dev/null.
	Stdin []byte `json:"stdin,omitempty"`
	// StdinOpen leaves standard input open, to be fed through an [Attachment]. It
	// implies Attached. Defaults to false.
	StdinOpen bool `json:"stdin_open,omitempty"`
	// Attached says that the starter is about to Attach: its hold on the output
	// begins before the command does, and ends with the attachment or the starter's
	// process. Who sets it must call Attach and Close. No part of the digest.
	// Defaults to false.
	Attached bool `json:"-"`
	// Timeout limits the command's own run time. Defaults to NoTimeout.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Grace is the time between TERM and KILL, or AtOnce. Defaults to DefaultGrace.
	Grace time.Duration `json:"grace,omitempty"`
	// Drain is how long the output must be idle, after the command has ended, before
	// processes that still hold it are no longer waited for. Defaults to DefaultDrain.
	Drain time.Duration `json:"drain,omitempty"`
	// DrainCap bounds that wait when the output never gets idle. Defaults to DefaultDrainCap.
	DrainCap time.Duration `json:"drain_cap,omitempty"`
	// Umask is the command's file mode creation mask. Defaults to the supervisor's.
	Umask Umask `json:"umask,omitempty"`
	// Output bounds what is kept. Defaults to the first 1 MiB and the last 16 MiB.
	Output Output `json:"output,omitzero"`
	// Split keeps standard output and error apart. Defaults to one merged pipe,
	// whose order is what the command wrote.
	Split bool `json:"split,omitempty"`
	// Leftovers says what happens to processes left behind. Defaults to StopLeftovers.
	Leftovers Leftovers `json:"leftovers,omitempty"`
	// Limits bound what the command may use. Defaults to none.
	Limits Limits `json:"limits,omitzero"`
	// TTY asks for a terminal of that size: the command's controlling one, its three
	// streams, with output merged and line ends as a terminal makes them. Its input is
	// open from the start to the end, and nobody need be attached. It goes with none of
	// Stdin, StdinOpen and Split. Defaults to none.
	TTY *TTY `json:"tty,omitempty"`
}

// WithDefaults returns r with its zero values replaced by what they mean.
func (r Request) WithDefaults() Request {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&r.Grace, DefaultGrace)
	def(&r.Drain, DefaultDrain)
	def(&r.DrainCap, DefaultDrainCap)
	if r.Output.SpoolHead == 0 {
		r.Output.SpoolHead = DefaultSpoolHead
	}
	if r.Output.SpoolTail == 0 {
		r.Output.SpoolTail = DefaultSpoolTail
	}
	if r.Output.OnLimit == "" {
		r.Output.OnLimit = Collapse
	}
	if r.Leftovers == "" {
		r.Leftovers = StopLeftovers
	}
	r.Attached = r.Attached || r.StdinOpen
	return r
}

func invalid(format string, args ...any) error {
	return fault.Newf(fault.Invalid, "shell request: "+format, args...)
}

// Validate returns an error of kind fault.Invalid that names the first thing wrong
// with r. It does no IO: whether Dir exists is seen when the command starts.
func (r Request) Validate() error {
	switch {
	case r.Command == "" && len(r.Argv) == 0:
		return invalid("no command")
	case r.Command != "" && len(r.Argv) != 0:
		return invalid("both shell text and an argument list")
	case strings.IndexByte(r.Command, 0) >= 0:
		return invalid("NUL byte in the shell text")
	case len(r.Argv) != 0 && r.Argv[0] == "":
		return invalid("empty program name")
	case !filepath.IsAbs(r.Dir):
		return invalid("directory %q is not absolute", r.Dir)
	case strings.IndexByte(r.Dir, 0) >= 0:
		return invalid("NUL byte in the directory")
	case len(r.Stdin) > 0 && r.StdinOpen:
		return invalid("standard input both given and left open")
	case r.Umask != 0 && r.Umask&umaskSet == 0, r.Umask&^(umaskSet|0o777) != 0:
		return invalid("bad umask %#o", r.Umask)
	}
	for i, a := range r.Argv {
		if strings.IndexByte(a, 0) >= 0 {
			return invalid("NUL byte in argument %d", i)
		}
	}
	for k, v := range r.Env {
		switch {
		case k == "" || strings.ContainsAny(k, "=\x00"):
			return invalid("bad environment name %q", k)
		case strings.IndexByte(v, 0) >= 0:
			return invalid("NUL byte in the value of %s", k)
		case k == Cookie:
			return invalid("%s cannot be set", Cookie)
		}
	}
	for i, kv := range r.Environ {
		if strings.IndexByte(kv, 0) >= 0 {
			return invalid("NUL byte in environment entry %d", i)
		}
	}
	return r.validateLimits()
}

func (r Request) validateLimits() error {
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"timeout", r.Timeout}, {"drain", r.Drain}, {"drain cap", r.DrainCap}} {
		if d.d < 0 {
			return invalid("negative %s %v", d.name, d.d)
		}
	}
	for _, n := range []int64{r.Limits.Memory, r.Limits.Pids, r.Limits.MilliCPU, r.Limits.Files, r.Limits.Processes} {
		if n < 0 {
			return invalid("negative limit %d", n)
		}
	}
	o := r.Output
	switch {
	case r.Grace < 0 && r.Grace != AtOnce:
		return invalid("negative grace %v", r.Grace)
	case o.SpoolHead < 0 || o.SpoolTail < 0 || o.Limit < 0:
		return invalid("negative output limit")
	case o.OnLimit != "" && o.OnLimit != Collapse && o.OnLimit != StopAtLimit:
		return invalid("unknown on_limit %q", o.OnLimit)
	case (o.OnLimit == StopAtLimit) != (o.Limit > 0):
		return invalid("an output limit goes with on_limit stop, and the other way round")
	case r.Leftovers != "" && r.Leftovers != StopLeftovers && r.Leftovers != KeepLeftovers:
		return invalid("unknown leftovers %q", r.Leftovers)
	case r.TTY != nil && (len(r.Stdin) > 0 || r.StdinOpen || r.Split):
		return invalid("a terminal, and other standard streams")
	case r.TTY != nil && (r.TTY.Cols == 0 || r.TTY.Rows == 0):
		return invalid("terminal of %d x %d", r.TTY.Cols, r.TTY.Rows)
	}
	return nil
}

// Digest identifies what is to be run: two requests with the same digest are the
// same run. It covers everything except the values of Env, Environ and Attached,
// with zero values replaced by what they mean.
func (r Request) Digest() string {
	r = r.WithDefaults()
	h := sha256.New()
	num := func(n int64) {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], uint64(n))
		h.Write(b[:])
	}
	str := func(s string) { num(int64(len(s))); h.Write([]byte(s)) }
	flag := func(b bool) {
		if b {
			num(1)
		} else {
			num(0)
		}
	}
	str("outlive shell request 1")
	str(r.Command)
	num(int64(len(r.Argv)))
	for _, a := range r.Argv {
		str(a)
	}
	str(r.Dir)
	num(int64(len(r.Env)))
	for _, k := range slices.Sorted(maps.Keys(r.Env)) {
		str(k)
	}
	str(string(r.Stdin))
	flag(r.StdinOpen)
	for _, d := range []time.Duration{r.Timeout, r.Grace, r.Drain, r.DrainCap} {
		num(int64(d))
	}
	num(int64(r.Umask))
	num(r.Output.SpoolHead)
	num(r.Output.SpoolTail)
	str(string(r.Output.OnLimit))
	num(r.Output.Limit)
	flag(r.Split)
	str(string(r.Leftovers))
	if r.TTY != nil {
		str(fmt.Sprintf("%dx%d", r.TTY.Cols, r.TTY.Rows))
	}
	if l := r.Limits; l != (Limits{}) {
		str("limits")
		for _, n := range []int64{l.Memory, l.Pids, l.MilliCPU, l.Files, l.Processes} {
			num(n)
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
