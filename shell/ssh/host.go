// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package ssh

import "time"

// Words that make the program the one on the host.
const (
	argStdio = "__stdio" // the end of a session
	argServe = "__serve" // the process that serves, with its checksum
)

// maxStreams is how many calls one connection carries at once: more than anybody makes.
const maxStreams = 100_000

// HostOptions of the program on the host. A nil *HostOptions means the defaults.
type HostOptions struct {
	// Lease is how long a command of Execute or Stream goes on with nobody watching.
	// Defaults to 30 seconds.
	Lease time.Duration
	// Linger is how long the process that serves stays when nobody is connected.
	// Defaults to one minute.
	Linger time.Duration
}

func (o *HostOptions) withDefaults() HostOptions {
	var v HostOptions
	if o != nil {
		v = *o
	}
	if v.Linger <= 0 {
		v.Linger = time.Minute
	}
	return v
}
