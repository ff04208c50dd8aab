// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package dev has what one needs to try agents without a model or a network: outlive
// dev.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/lifecycle"
	"github.com/outlive-dev/outlive/outlivetest/mockllm"
)

// Options are what the command needs of the command line.
type Options struct {
	// Out gets the URL. Required.
	Out io.Writer
	// Note prints a line for people. Required.
	Note func(format string, args ...any)
	// Group runs the server. Required.
	Group *lifecycle.Group
}

// Command returns the command.
func Command(o Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Try agents without a model",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	script, listen := "", ""
	mock := &cobra.Command{
		Use:   "mock-llm --script FILE",
		Short: "Serve a scripted model that speaks the chat completions API of OpenAI",
		Long: "Answers by a script in JSON, blocking and streaming, with tool calls and faults, and prints\n" +
			"the base URL. The step that answers follows from the number of assistant messages in the\n" +
			"request, so that a conversation that was cut goes on. GET /requests says what was asked.\n" +
			"In texts and arguments {{last \"REGEXP\"}} is the last match in the messages.\n\n" +
			"A step has expect, text, tool_calls, delay, chunk_delay, chunk and fault (kind: status, cut,\n" +
			"malformed or hang; status, retry_after, after, times).",
		Example: `  echo '{"models": {"*": [{"text": "hello"}]}}' | outlive dev mock-llm --script -`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), o, cmd.InOrStdin(), script, listen)
		},
	}
	mock.Flags().StringVar(&script, "script", "", "the script's `FILE`, - for standard input")
	mock.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "`ADDR` to listen on, as host:port, on the loopback")
	cmd.AddCommand(mock)
	return cmd
}

// bye is how long requests may take to end when the server stops.
const bye = 2 * time.Second

func serve(ctx context.Context, o Options, in io.Reader, script, listen string) error {
	if script == "" {
		return fault.New(fault.Invalid, "--script is missing").WithHint("outlive dev mock-llm --help shows a script")
	}
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fault.Newf(fault.Invalid, "--listen %s: want host:port on the loopback", listen)
	}
	s, err := read(in, script)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", listen, err)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	model := mockllm.New(s)
	srv := &http.Server{Handler: model, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	o.Group.Go("mock-llm", func(context.Context) { ended <- srv.Serve(l) })
	if _, err := fmt.Fprintf(o.Out, "http://%s/v1\n", l.Addr()); err != nil {
		return errors.Join(err, srv.Close())
	}
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	free, cancel := context.WithTimeout(context.WithoutCancel(ctx), bye)
	defer cancel()
	if srv.Shutdown(free) != nil {
		_ = srv.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	o.Note("%d requests were made", len(model.Requests()))
	return nil
}

func read(in io.Reader, script string) (*mockllm.Script, error) {
	if script == "-" {
		return mockllm.Parse(in)
	}
	f, err := os.Open(script)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fault.Newf(fault.Invalid, "--script %s: no such file", script)
	}
	if err != nil {
		return nil, fmt.Errorf("--script: %w", err)
	}
	defer f.Close()
	return mockllm.Parse(f)
}
