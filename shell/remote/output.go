// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/shell"
)

const (
	chunkSize = 64 << 10  // bytes of one read while following
	maxChunk  = 4 << 20   // bytes of one read that names its size
	frameSize = 256 << 10 // bytes of one line
	stdinWait = 10 * time.Second
)

// output streams what a run wrote: see the package comment.
func (s *Server) output(w http.ResponseWriter, r *http.Request, id shell.RunID) error {
	from, err := number(r, "from")
	if err != nil {
		return err
	}
	limit, err := number(r, "max")
	if err != nil {
		return err
	}
	wait, err := duration(r, "wait")
	if err != nil {
		return err
	}
	st, _, err := s.look(r.Context(), id)
	if err != nil {
		return err
	}
	if st.State == stateNeverStarted && st.Error != nil {
		return st.Error.err()
	}
	if name := r.URL.Query().Get("reader"); name != "" {
		ack := from
		if r.URL.Query().Has("ack") {
			if ack, err = number(r, "ack"); err != nil {
				return err
			}
		}
		if err := s.hold(r.Context(), id, name, ack); err != nil {
			return err
		}
	}
	defer s.watch(id)()
	o := &outputStream{
		s: s, id: id, w: w, rc: http.NewResponseController(w), from: from, limit: int(min(limit, maxChunk)), once: r.URL.Query().Has("max"),
	}
	if !o.once && !r.URL.Query().Has("wait") {
		wait = -1
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	o.run(r.Context(), wait)
	return nil
}

// outputStream is one answer.
type outputStream struct {
	s     *Server
	id    shell.RunID
	w     http.ResponseWriter
	rc    *http.ResponseController
	from  int64
	limit int
	once  bool
}

// run writes until the end, the limit, or wait has passed (-1: never). Whatever
// happens, the last line says where to go on; a stream without it was cut.
func (o *outputStream) run(ctx context.Context, wait time.Duration) {
	deadline := time.Now().Add(wait)
	for {
		left := o.s.o.Heartbeat
		if wait >= 0 {
			left = max(min(left, time.Until(deadline)), 0)
		}
		c, err := o.next(ctx, left)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			o.put(line{Error: problemOf(err), Next: &o.from})
			return
		}
		if !o.chunk(c) {
			return
		}
		last := line{Next: &c.Next, End: c.End}
		if c.End {
			st, err := o.s.backend.Recover(ctx, o.id)
			if err != nil || st.Exit == nil {
				return // who reads asks again
			}
			last.Exit = st.Exit
		}
		over := wait >= 0 && !time.Now().Before(deadline)
		if c.End || over || o.once && c.Next > o.from {
			o.put(last)
			return
		}
		if c.Next == o.from && !o.put(line{Ping: true}) {
			return
		}
		o.from = c.Next
	}
}

// next reads once. Of a run that is pending there is nothing to read.
func (o *outputStream) next(ctx context.Context, wait time.Duration) (shell.Chunk, error) {
	st, changed, err := o.s.look(ctx, o.id)
	if err != nil {
		return shell.Chunk{}, err
	}
	if changed != nil {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
		}
		return shell.Chunk{Next: o.from}, nil
	}
	if st.State == stateNeverStarted {
		return shell.Chunk{}, shell.ErrNoRun
	}
	size := chunkSize
	if o.limit > 0 {
		size = o.limit
	}
	return o.s.backend.Read(ctx, o.id, o.from, size, wait)
}

func (o *outputStream) chunk(c shell.Chunk) bool {
	for _, om := range c.Omitted {
		if !o.put(line{Omitted: &om}) {
			return false
		}
	}
	for _, f := range c.Frames {
		for at := 0; at < len(f.Data); at += frameSize {
			l := line{Off: f.Off + int64(at), Data: f.Data[at:min(at+frameSize, len(f.Data))]}
			if f.Stream != shell.Merged {
				l.Stream = f.Stream.String()
			}
			if !o.put(l) {
				return false
			}
		}
	}
	return true
}

// put writes one line, for which a slow reader has a while: the backend does not wait
// for it.
func (o *outputStream) put(l line) bool {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(l); err != nil {
		return false
	}
	_ = o.rc.SetWriteDeadline(time.Now().Add(writeLimit)) // not every writer has one
	if _, err := o.w.Write(b.Bytes()); err != nil {
		return false
	}
	return o.rc.Flush() == nil
}

// reader is a remote reader's hold on a run. It ends when the reader says so, or when
// it has not been heard of for a while.
type reader struct {
	att   shell.Attachment
	timer *time.Timer

	feeding sync.Mutex // one write of input at a time
	fed     int64      // bytes of input taken
}

// hold makes the reader's hold, or acknowledges what it has taken.
func (s *Server) hold(ctx context.Context, id shell.RunID, name string, off int64) error {
	if len(name) > 64 {
		return fault.New(fault.Invalid, "the reader's name is too long")
	}
	if rd := s.reader(id, name); rd != nil {
		return rd.att.Ack(off)
	}
	att, err := s.backend.Attach(context.WithoutCancel(ctx), id, off)
	if err != nil {
		return err
	}
	rd := &reader{att: att}
	s.mu.Lock()
	r := s.runLocked(id)
	old := r.readers[name]
	if old == nil {
		rd.timer = time.AfterFunc(readerGrace, func() { s.endReader(id, name) })
		r.readers[name] = rd
	}
	s.mu.Unlock()
	if old != nil {
		return att.Close() // two made it at once
	}
	return nil
}

// reader finds a reader and notes that it was heard of.
func (s *Server) reader(id shell.RunID, name string) *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil || r.readers[name] == nil {
		return nil
	}
	r.readers[name].timer.Reset(readerGrace)
	return r.readers[name]
}

func (s *Server) endReader(id shell.RunID, name string) {
	s.mu.Lock()
	var rd *reader
	if r := s.runs[id]; r != nil {
		rd = r.readers[name]
		delete(r.readers, name)
		s.tidyLocked(id)
	}
	s.mu.Unlock()
	if rd != nil {
		rd.timer.Stop()
		_ = rd.att.Close()
	}
}

func (s *Server) putReader(w http.ResponseWriter, r *http.Request, id shell.RunID) error {
	var p position
	if err := body(w, r, smallBody, &p); err != nil {
		return err
	}
	if p.Off < 0 {
		return fault.New(fault.Invalid, "negative offset")
	}
	if _, _, err := s.look(r.Context(), id); err != nil {
		return err
	}
	if err := s.hold(r.Context(), id, r.PathValue("reader"), p.Off); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) dropReader(w http.ResponseWriter, r *http.Request, id shell.RunID) error {
	s.endReader(id, r.PathValue("reader"))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// stdin takes input once, however often it is sent, and answers with how much it has.
func (s *Server) stdin(w http.ResponseWriter, r *http.Request, id shell.RunID) error {
	var in input
	if err := body(w, r, smallBody, &in); err != nil {
		return err
	}
	rd := s.reader(id, in.Reader)
	if rd == nil {
		if _, _, err := s.look(r.Context(), id); err != nil {
			return err
		}
		return shell.ErrNoStdin
	}
	if in.TTY != nil { // also while the command does not read
		if err := rd.att.Resize(*in.TTY); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	rd.feeding.Lock()
	defer rd.feeding.Unlock()
	if in.Off < 0 || in.Off > rd.fed {
		return fault.Newf(fault.Conflict, "input from %d: there are %d bytes before it", in.Off, rd.fed)
	}
	if skip := rd.fed - in.Off; skip < int64(len(in.Data)) {
		ctx, cancel := context.WithTimeout(r.Context(), stdinWait)
		n, err := rd.att.WriteStdin(ctx, in.Data[skip:])
		full := ctx.Err() != nil
		cancel()
		rd.fed += int64(n)
		if err != nil && !full {
			return err
		}
	}
	if in.EOF && rd.fed == in.Off+int64(len(in.Data)) {
		if err := rd.att.CloseStdin(); err != nil {
			return err
		}
	}
	answer(w, http.StatusOK, position{Off: rd.fed})
	return nil
}
