// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Command sandbox is a server and a client that tests can kill:
//
//	sandbox serve RUNS STATE ADDR LEASE    prints its address; the token is in OUTLIVE_BACKEND_TOKEN
//	sandbox start URL ID < REQUEST         starts a run and prints "started"
//	sandbox follow URL ID                  copies a run's output and prints its code on stderr
//	sandbox execute URL < REQUEST          executes a command and copies its output
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/local"
	"github.com/outlive-dev/outlive/shell/remote"
)

func main() {
	local.Main(os.Args)
	if err := run(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, verb string, args []string) error {
	if verb == "serve" {
		return serve(ctx, args)
	}
	c, err := remote.Dial(args[0], nil)
	if err != nil {
		return err
	}
	switch verb {
	case "start":
		req, err := request()
		if err != nil {
			return err
		}
		if err := c.Start(ctx, shell.RunID(args[1]), shell.Fence{Generation: 1, Attempt: 1}, req); err != nil {
			return err
		}
		fmt.Println("started")
		return nil
	case "execute":
		req, err := request()
		if err != nil {
			return err
		}
		for p, err := range c.Stream(ctx, req) {
			if err != nil {
				return err
			}
			for _, f := range p.Frames {
				os.Stdout.Write(f.Data)
			}
		}
		return nil
	}
	id := shell.RunID(args[1])
	for from := int64(0); ; {
		ch, err := c.Read(ctx, id, from, 0, time.Minute)
		if err != nil {
			return err
		}
		os.Stdout.Write(ch.Bytes())
		if from = ch.Next; ch.End {
			break
		}
	}
	e, err := c.Wait(ctx, id)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s %d\n", e.Cause, *e.Code)
	return nil
}

func request() (r shell.Request, err error) {
	err = json.NewDecoder(os.Stdin).Decode(&r)
	return r, err
}

func serve(ctx context.Context, args []string) error {
	b, err := local.Open(args[0], nil)
	if err != nil {
		return err
	}
	lease, err := time.ParseDuration(args[3])
	if err != nil {
		return err
	}
	s := remote.NewServer(b, &remote.ServerOptions{Token: os.Getenv(remote.TokenEnv), StateDir: args[1], Lease: lease})
	if err := s.Start(ctx); err != nil {
		return err
	}
	l, err := net.Listen("tcp", args[2])
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, s)
}
