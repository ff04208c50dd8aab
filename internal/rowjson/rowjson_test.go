// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package rowjson_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/outlive-dev/outlive/internal/rowjson"
	"github.com/outlive-dev/outlive/store"
	"github.com/outlive-dev/outlive/task"
)

// fill sets every field to a value that is not zero; text makes the strings.
func fill(v reflect.Value, text func() string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text())
	case reflect.Int, reflect.Int64:
		v.SetInt(-42)
	case reflect.Uint64:
		v.SetUint(1<<64 - 1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(text()), reflect.ValueOf(text()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), text)
		}
	case reflect.Uint8:
		v.SetUint(200)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 7, 14, 1, 2, 3, 456789000, time.UTC)))
			return
		}
		for _, f := range v.Fields() {
			fill(f, text)
		}
	default:
		panic("no value for " + v.Type().String())
	}
}

func TestAgreesWithEncodingJSON(t *testing.T) {
	t.Parallel()
	text := func() string { return "some \"text\"\n\x01 ü <&> \u2028" }
	t.Run("record", func(t *testing.T) { agrees[task.Record](t, text) })
	t.Run("worker", func(t *testing.T) { agrees[store.Worker](t, text) })
	t.Run("observer", func(t *testing.T) { agrees[store.Observer](t, text) })
}

func agrees[T any](t *testing.T, text func() string) {
	var full, zero T
	fill(reflect.ValueOf(&full).Elem(), text)
	for _, v := range []T{full, zero} {
		b, err := rowjson.New[T]().Append(nil, &v, nil)
		if err != nil {
			t.Fatal(err)
		}
		var theirs, mine T
		if err := json.Unmarshal(b, &theirs); err != nil {
			t.Fatalf("json.Unmarshal(%s) = %v", b, err)
		}
		if d := cmp.Diff(v, theirs); d != "" {
			t.Errorf("encoding/json reads it as (-want +got):\n%s", d)
		}
		if b, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
		extra, err := rowjson.New[T]().Decode(b, &mine)
		if d := cmp.Diff(v, mine); d != "" || err != nil || extra != nil {
			t.Errorf("Decode of what encoding/json wrote = %q, %v (-want +got):\n%s", extra, err, d)
		}
	}
}

func TestEveryByteComesBack(t *testing.T) {
	t.Parallel()
	c := rowjson.New[task.Record]()
	rapid.Check(t, func(rt *rapid.T) {
		var v, got task.Record
		fill(reflect.ValueOf(&v).Elem(), func() string {
			return string(rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(rt, "bytes"))
		})
		b, err := c.Append(nil, &v, nil)
		if err != nil || !json.Valid(b) {
			rt.Fatalf("Append = %q, %v, want valid JSON", b, err)
		}
		if _, err := c.Decode(b, &got); err != nil {
			rt.Fatalf("Decode(%s) = %v", b, err)
		}
		if d := cmp.Diff(v, got); d != "" {
			rt.Fatalf("Decode (-want +got):\n%s", d)
		}
	})
}

func TestUnknownMembersSurvive(t *testing.T) {
	t.Parallel()
	c := rowjson.New[store.Queue]()
	const body = `{"name":"q","new":{"a":[1,2,{"b":"c"}],"d":null},"limit":3,"more":-1.5e3}`
	var q store.Queue
	extra, err := c.Decode([]byte(body), &q)
	if err != nil || q != (store.Queue{Name: "q", Limit: 3}) {
		t.Fatalf("Decode = %v, %v", q, err)
	}
	q.Limit = 4
	b, err := c.Append(nil, &q, extra)
	if want := `{"name":"q","limit":4,"new":{"a":[1,2,{"b":"c"}],"d":null},"more":-1.5e3}`; string(b) != want || err != nil {
		t.Errorf("Append = %s, %v, want %s", b, err, want)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"id":"a","labels":{"k":"v"},"result":{"data":"AAA="},"created_at":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"id":"\u0000AA==","x":[{}]}`))
	c := rowjson.New[task.Record]()
	f.Fuzz(func(t *testing.T, body []byte) {
		var v, again task.Record
		extra, err := c.Decode(body, &v)
		if err != nil {
			return
		}
		b, err := c.Append(nil, &v, extra)
		if err != nil {
			t.Skip()
		}
		if _, err := c.Decode(b, &again); err != nil {
			t.Errorf("Decode(%q), written from %q = %v", b, body, err)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	var v task.Record
	v.ID, v.State, v.Executor, v.CreatedAt, v.Spec.Data = "ag-0001", task.Running, "report.v1", time.Now().UTC(), make([]byte, 64)
	c := rowjson.New[task.Record]()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = c.Append(buf[:0], &v, nil)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkDecode(b *testing.B) {
	var v task.Record
	v.ID, v.State, v.Executor, v.CreatedAt, v.Spec.Data = "ag-0001", task.Running, "report.v1", time.Now().UTC(), make([]byte, 64)
	c := rowjson.New[task.Record]()
	body, _ := c.Append(nil, &v, nil)
	b.ReportAllocs()
	for b.Loop() {
		var r task.Record
		if _, err := c.Decode(body, &r); err != nil {
			b.Fatal(err)
		}
	}
}
