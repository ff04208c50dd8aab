// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/outlive-dev/outlive/shell"
)

// faulty is a run of six bytes, whose attachment fails where it is told to.
type faulty struct {
	shell.Recoverable
	attach, ack error
}

func (f faulty) Attach(context.Context, shell.RunID, int64) (shell.Attachment, error) {
	return &faultyReader{ack: f.ack}, f.attach
}

type faultyReader struct {
	shell.Attachment
	ack  error
	next int64
}

func (f *faultyReader) Read(context.Context, int) (shell.Chunk, error) {
	c := shell.Chunk{Frames: []shell.Frame{{Off: f.next, Data: []byte("abc")}}, Next: f.next + 3, End: f.next == 3}
	f.next = c.Next
	return c, nil
}

func (f *faultyReader) Ack(int64) error { return f.ack }
func (f *faultyReader) Close() error    { return nil }

// A copy that does not come to the end says why, except when it was asked to stop:
// silence would pass for the whole output.
func TestCopyNeverEndsSilently(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		run  faulty
		want error
		out  string
	}{
		{"all is well", faulty{}, nil, "abcabc"},
		{"it cannot attach", faulty{attach: broken}, broken, ""},
		{"it never started", faulty{attach: shell.ErrNoRun}, nil, ""},
		{"it cannot acknowledge", faulty{ack: broken}, broken, "abc"},
		{"the run went away", faulty{ack: shell.ErrNoRun}, shell.ErrNoRun, "abc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			c := &copier{app: &app{out: out}}
			err = c.follow(t.Context(), tt.run)
			got, rerr := os.ReadFile(out.Name())
			if !errors.Is(err, tt.want) || rerr != nil || string(got) != tt.out {
				t.Errorf("follow = %v after %q (%v), want %v after %q", err, got, rerr, tt.want, tt.out)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := c.follow(ctx, tt.run); !errors.Is(err, errStopped) {
				t.Errorf("follow when stopped = %v", err)
			}
		})
	}
}
