// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package remote runs commands on another machine over HTTP: [Server] puts any
// recoverable backend behind a handler, and [Client] is that backend again, for
// whoever can reach it.
//
// # Guarantees
//
//  1. The command's clock is the server's backend's. Provisioning, queueing and
//     transport are not command time, and no answer of the transport is taken for an
//     exit or a timeout.
//  2. A start names its run, so that a lost answer is resolved by asking. A run is
//     executed at most once, whatever happens to client, server and link.
//  3. Output is read by offset: a cut link loses and repeats nothing.
//  4. A start whose context ends while the server still provisions or queues never
//     executes the command.
//  5. A run of [Client.Execute] is stopped when nobody has watched it for the server's
//     lease; a run of [Client.Start] has no lease.
//  6. Values of the environment travel in the body of one request and are not logged.
//
// # The wire
//
// Bodies are JSON and must not have unknown fields; durations are milliseconds, text
// that is not UTF-8 is {"base64": "..."}. Every request carries a bearer token.
//
//	PUT    /v1/runs/{id}         starts: 201 made, 200 known, 409 known with another
//	                             request or a newer owner, 410 released; headers
//	                             Outlive-Generation and Outlive-Attempt are the fence
//	GET    /v1/runs/{id}         state; ?wait=20s waits for the next one
//	GET    /v1/runs/{id}/output  lines {off,data,stream}, {omitted}, {ping}, {exit}
//	                             from ?from=N on, until the exit or ?wait=25s; with
//	                             ?max=N at most so many bytes, as soon as there are some
//	POST   /v1/runs/{id}/stop    {cause,reason,grace_ms,generation,attempt}
//	POST   /v1/runs/{id}/stdin   {reader,off,data,eof}: what came before off is skipped
//	PUT    /v1/runs/{id}/readers/{reader}  {off}: holds output back, acknowledges
//	DELETE /v1/runs/{id}/readers/{reader}  ends that
//	DELETE /v1/runs/{id}         releases
//	GET    /v1/runs              lists
//
// # Caveats
//
// The directory that a server allows is checked before a command starts; it is no
// sandbox, the command may go anywhere the server's user may. Output held back for a
// reader, and open input, do not survive the server's process; the run does.
package remote
