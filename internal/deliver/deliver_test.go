// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package deliver_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outlive-dev/outlive/fault"
	"github.com/outlive-dev/outlive/internal/deliver"
	"github.com/outlive-dev/outlive/mail"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/store/memory"
)

// E36: an old receipt is fenced when its lease is over or another one has it, and
// finds nothing after the acknowledgement.
func TestE36_Receipts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(nil)
		defer st.Close()
		n := 0
		d := deliver.New(st, deliver.Options{Lease: time.Second, Receipt: func() string { n++; return fmt.Sprint(n) }})
		ctx := t.Context()
		if err := st.Update(ctx, []store.Key{store.DeliveryKey("x", "m")}, func(tx store.Tx) error {
			tx.PutDelivery(store.Delivery{Target: "x", Message: mail.Input{ID: "m"}, At: tx.Now(), Due: tx.Now()})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		first, err := d.Lease(ctx, "x", "m")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Lease(ctx, "x", "m"); !fault.Is(err, fault.Fenced) {
			t.Errorf("a second lease: %v", err)
		}
		time.Sleep(time.Second) // fake
		if err := d.Ack(ctx, first); !fault.Is(err, fault.Fenced) {
			t.Errorf("ack after the lease: %v", err)
		}
		second, err := d.Lease(ctx, "x", "m")
		if err != nil || second.Tries != 2 {
			t.Fatalf("lease again: %+v, %v", second, err)
		}
		if err := d.Ack(ctx, first); !fault.Is(err, fault.Fenced) {
			t.Errorf("ack by the old receipt: %v", err)
		}
		if err := d.Ack(ctx, second); err != nil {
			t.Errorf("ack: %v", err)
		}
		for _, m := range []store.Delivery{first, second} {
			if err := d.Ack(ctx, m); !fault.Is(err, fault.NotFound) {
				t.Errorf("ack after the ack: %v", err)
			}
		}
	})
}
