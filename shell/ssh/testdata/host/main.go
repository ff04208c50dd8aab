// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Command host is the program that is placed on the host of a test, and a client that
// tests can kill:
//
//	host start URL ID < REQUEST    starts a run and prints "started"
//	host follow URL ID             copies a run's output and prints its code on stderr
//	host execute URL < REQUEST     executes a command and copies its output
//	host plain URL < REQUEST       executes a command without the program on the host
//	host sftp-server               serves files on standard input and output
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pkg/sftp"

	"github.com/outlive-dev/outlive/shell"
	"github.com/outlive-dev/outlive/shell/ssh"
)

func main() {
	linger, _ := time.ParseDuration(os.Getenv("HOST_LINGER")) // or the default
	ssh.Main(os.Args, &ssh.HostOptions{Lease: 3 * time.Second, Linger: linger})
	if os.Args[1] == "sftp-server" {
		s, err := sftp.NewServer(struct {
			io.Reader
			io.WriteCloser
		}{os.Stdin, os.Stdout})
		if err == nil {
			err = s.Serve()
		}
		if err != nil {
			os.Exit(1)
		}
		return
	}
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, verb, url string, args []string) error {
	var req shell.Request
	if verb != "follow" {
		if err := json.NewDecoder(os.Stdin).Decode(&req); err != nil {
			return err
		}
	}
	if verb == "plain" {
		s, err := ssh.NewShell(url, nil)
		if err == nil {
			_, err = s.Execute(ctx, req)
		}
		return err
	}
	c, err := ssh.Dial(url, nil)
	if err != nil {
		return err
	}
	switch verb {
	case "start":
		if err := c.Start(ctx, shell.RunID(args[0]), shell.Fence{Generation: 1, Attempt: 1}, req); err != nil {
			return err
		}
		fmt.Println("started")
		return nil
	case "execute":
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
	id := shell.RunID(args[0])
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
