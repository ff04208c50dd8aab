// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package mail

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Kinds of inputs that the engine makes or leaves.
const (
	// KindChild begins the kind of a notice: child.waiting, child.backgrounded,
	// child.completed, child.failed or child.canceled.
	KindChild = "child."
	// KindWithdrawn is an input that its sender took back: it has no content any more,
	// and keeps its place.
	KindWithdrawn = "withdrawn"
)

// MaxNotice is how long the data of a notice is at most.
const MaxNotice = 4 << 10

// Notice is the data of an input whose kind begins with [KindChild].
type Notice struct {
	// Task is the child, whose record and journal have all that is not here.
	Task string `json:"task"`
	// Summary is the beginning of its result, how it failed, or what it is.
	Summary string `json:"summary,omitempty"`
	// Rest is how many bytes of the summary are not here.
	Rest int `json:"rest,omitempty"`
	// Suppressed counts the unread notices of the task that this one stands for.
	Suppressed int `json:"suppressed,omitempty"`
}

// NoticeOf reads an input that is a notice.
func NoticeOf(in Input) (n Notice, ok bool) {
	return n, strings.HasPrefix(in.Kind, KindChild) && json.Unmarshal(in.Data, &n) == nil
}

// Encode returns the notice as JSON, with as much of the summary as there is room for.
func (n Notice) Encode() []byte {
	whole := strings.ToValidUTF8(n.Summary, "\uFFFD")
	for keep := min(len(whole), MaxNotice); ; {
		for keep > 0 && keep < len(whole) && !utf8.RuneStart(whole[keep]) {
			keep--
		}
		n.Summary, n.Rest = whole[:keep], len(whole)-keep
		data, err := json.Marshal(n)
		if err != nil {
			panic(err) // strings and integers
		}
		if len(data) <= MaxNotice || keep == 0 {
			return data
		}
		keep -= min(keep, (len(data)-MaxNotice+5)/6) // a byte takes at most six
	}
}
