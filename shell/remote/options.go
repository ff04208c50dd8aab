// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/outlive-dev/outlive/shell"
)

// ServerOptions of a server. A nil *ServerOptions means the defaults.
type ServerOptions struct {
	// Token is what every request must carry. Required unless Trusted: without one
	// the server refuses everything.
	Token string
	// Trusted means that whoever can make a connection was admitted on the way, as
	// over a socket of this user alone: no token is wanted. Defaults to false.
	Trusted bool
	// Hosts are the names, without port, under which the server may be addressed; it
	// refuses any other, so that no web page can reach it by a name of its own.
	// Defaults to localhost, 127.0.0.1 and ::1.
	Hosts []string
	// Root is the directory that the commands' directories must lie in. Defaults to
	// any directory.
	Root string
	// Slots is how many commands run at once; the others are queued. Defaults to no
	// limit.
	Slots int
	// Lease is how long a run that has one goes on with nobody watching. Defaults to
	// 30 seconds.
	Lease time.Duration
	// StateDir is where leases are noted, so that they outlive the server's process.
	// Defaults to nowhere.
	StateDir string
	// Heartbeat is how often a stream with nothing to tell says so. Defaults to 5
	// seconds.
	Heartbeat time.Duration
	// MaxBody bounds the body of a start in bytes. Defaults to 32 MiB.
	MaxBody int64
	// Provisioner prepares what a command needs before it starts. Defaults to
	// nothing.
	Provisioner Provisioner
	// Log is told of starts, stops and refusals, by run id. Defaults to no log.
	Log *slog.Logger
}

// Provisioner prepares what a command needs before it starts. Its time is not the
// command's time.
type Provisioner interface {
	// Provision returns when the run may start. It may be called again for the same
	// run, and must give up when ctx ends: then the run never starts.
	Provision(ctx context.Context, id shell.RunID, r shell.Request) error
}

func (o *ServerOptions) withDefaults() ServerOptions {
	var v ServerOptions
	if o != nil {
		v = *o
	}
	if v.Hosts == nil {
		v.Hosts = []string{"localhost", "127.0.0.1", "::1"}
	}
	if v.Lease <= 0 {
		v.Lease = 30 * time.Second
	}
	if v.Heartbeat <= 0 {
		v.Heartbeat = 5 * time.Second
	}
	if v.MaxBody <= 0 {
		v.MaxBody = 32 << 20
	}
	if v.Log == nil {
		v.Log = slog.New(slog.DiscardHandler)
	}
	return v
}

// Options of a client. A nil *Options means the defaults.
type Options struct {
	// Token is what the server wants. Defaults to what the server of the same user
	// on this machine has noted in the state directory, else to the environment
	// variable OUTLIVE_BACKEND_TOKEN.
	Token string
	// TokenDir is where that note is looked for. Defaults to [TokenDir].
	TokenDir string
	// Dial makes the connection, in which the client speaks HTTP/2 without TLS and
	// shows no token. A [fault.Error] of it whose kind is not Unavailable is final: it
	// is not tried again. Defaults to the URL's address.
	Dial func(ctx context.Context) (net.Conn, error)
	// TLS says whom to trust. Defaults to the system's certificates.
	TLS *tls.Config
	// Retry is how long a call tries to reach the server again, counted from the last
	// sign of life. Defaults to 60 seconds.
	Retry time.Duration
	// Idle is after how long without a line a stream counts as cut. Defaults to 15
	// seconds, three heartbeats of the server.
	Idle time.Duration
}

func (o *Options) withDefaults() Options {
	var v Options
	if o != nil {
		v = *o
	}
	if v.Retry <= 0 {
		v.Retry = time.Minute
	}
	if v.Idle <= 0 {
		v.Idle = 15 * time.Second
	}
	return v
}
