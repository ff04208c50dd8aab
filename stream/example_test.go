// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/outlive-dev/outlive"
	"github.com/outlive-dev/outlive/journal"
	"github.com/outlive-dev/outlive/store/memory"
	"github.com/outlive-dev/outlive/stream"
	"github.com/outlive-dev/outlive/task"
	"github.com/outlive-dev/outlive/work"
)

// run runs one task of an executor and prints what it put into the journal.
func run(attempt func(ctx context.Context, a *work.Attempt) work.Result) {
	ctx := context.Background()
	st := memory.New(nil)
	defer st.Close()
	rt := outlive.New(st, nil)
	rt.Register(work.Executor{Key: "example.v1", Run: attempt})
	if err := rt.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer func() {
		if err := rt.Stop(ctx); err != nil {
			fmt.Println(err)
		}
	}()
	rec, err := rt.Submit(ctx, outlive.Spec{Executor: "example.v1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for e, err := range rt.Events(ctx, rec.ID, nil) {
		switch {
		case err != nil:
			fmt.Println(err)
		case e.Event != "":
			fmt.Println(strings.TrimRight(fmt.Sprintf("%s %s/%s %s", e.Kind, e.Event, e.Part, e.Data), " "))
		case journal.Terminal(e.Kind):
			fmt.Println(e.Kind)
		}
	}
}

// A model's answer goes into the journal while the agent reads it. It cannot be asked
// for again as it was, so each attempt's answer is an event of its own.
func ExamplePersist() {
	type message struct {
		Role string `json:"role"`
	}
	model := func(yield func(string, error) bool) {
		for _, word := range []string{"It ", "rains."} {
			if !yield(word, nil) {
				return
			}
		}
	}
	run(func(ctx context.Context, a *work.Attempt) work.Result {
		answer := stream.Persist(ctx, a, stream.Event[message, string]{ID: "answer", Value: message{Role: "assistant"}, Chunks: model, Once: true}, stream.Messages)
		var text strings.Builder
		for word, err := range answer.Chunks(ctx) { // live: nothing here waits for the store
			if err != nil {
				return work.Retry("model", err.Error())
			}
			text.WriteString(word)
		}
		if _, err := answer.Wait(ctx); err != nil {
			return work.Retry("journal", err.Error())
		}
		return work.Done(task.Payload{Media: "text/plain", Data: []byte(text.String())})
	})
	// Output:
	// message answer@1/0 {"role":"assistant"}
	// message answer@1/1 "It "
	// message answer@1/2 "rains."
	// message answer@1/end
	// task.completed
}

// Output that is addressed by its offset goes on where the journal ends.
func ExampleBytes() {
	download := func(from int64) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) { yield([]byte("0123456789")[from:], nil) }
	}
	run(func(ctx context.Context, a *work.Attempt) work.Result {
		tail, err := a.Tail(ctx, "download")
		if err != nil {
			return work.Retry("journal", err.Error())
		}
		e := stream.Event[int64, []byte]{ID: "download", Value: tail.Bytes, Chunks: download(tail.Bytes)}
		if tail, err = stream.Persist(ctx, a, e, stream.Bytes).Wait(ctx); err != nil {
			return work.Retry("journal", err.Error())
		}
		return work.Done(task.Payload{Data: fmt.Appendf(nil, "%d bytes", tail.Bytes)})
	})
	// Output:
	// output download/0 0123456789
	// output download/end
	// task.completed
}

// A persister of one's own decides what a part is: here a record of the source, which
// has a stable id, so that it may come again.
func ExamplePersister() {
	type row struct{ Key, Value string }
	var rows stream.Persister[string, row] = func(ctx context.Context, w *stream.Writer, table string, chunks iter.Seq2[row, error]) error {
		for r, err := range chunks {
			if err != nil {
				return err
			}
			if _, err := w.Append(ctx, work.Part{ID: table + "/" + r.Key, Kind: "row", Media: "text/plain", Data: []byte(r.Value)}); err != nil {
				return err
			}
		}
		return nil
	}
	run(func(ctx context.Context, a *work.Attempt) work.Result {
		source := func(yield func(row, error) bool) {
			_ = yield(row{"a", "1"}, nil) && yield(row{"b", "2"}, nil) && yield(row{"a", "1"}, nil)
		}
		if _, err := stream.Persist(ctx, a, stream.Event[string, row]{ID: "rows", Value: "t", Chunks: source}, rows).Wait(ctx); err != nil {
			return work.Retry("journal", err.Error())
		}
		return work.Done(task.Payload{})
	})
	// Output:
	// row rows/t/a 1
	// row rows/t/b 2
	// task.completed
}
