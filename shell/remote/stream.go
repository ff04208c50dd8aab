// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/outlive-dev/outlive/shell"
)

const maxLine = 8 << 20

// stream is an output stream under way. It ends itself when no line comes for the
// client's idle time.
type stream struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	body   io.ReadCloser
	r      *bufio.Reader
	idle   time.Duration
	timer  *time.Timer
}

// open asks for output. Its errors are those of [Client.send].
func (c *Client) open(ctx context.Context, id shell.RunID, v url.Values) (*stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &stream{ctx: ctx, cancel: cancel, idle: c.o.Idle}
	s.timer = time.AfterFunc(s.idle, func() { cancel(errSlow) })
	resp, err := c.send(ctx, call{method: http.MethodGet, path: runPath(id, "/output"), query: v}) //nolint:bodyclose // close does
	if err != nil {
		s.timer.Stop()
		cancel(nil)
		return nil, err
	}
	s.body, s.r = resp.Body, bufio.NewReaderSize(resp.Body, 64<<10)
	return s, nil
}

// line returns the next line. A stream that ends without its last line was cut: that
// is a *lost, as is silence.
func (s *stream) line() (l line, err error) {
	var b []byte
	for {
		part, err := s.r.ReadSlice('\n')
		b = append(b, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) || len(b) > maxLine {
			return l, outcome(s.ctx, fmt.Errorf("the stream was cut: %w", err), true)
		}
	}
	s.timer.Reset(s.idle)
	if err := json.Unmarshal(b, &l); err != nil {
		return l, &lost{err: fmt.Errorf("a line that is no JSON: %w", err), sent: true}
	}
	return l, nil
}

func (s *stream) close() {
	s.timer.Stop()
	s.cancel(nil)
	s.body.Close()
}
