// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"embed"
	"encoding/json"
	"strings"
)

//go:embed text
var texts embed.FS

// Mode is what becomes of a command that takes long, and what a timeout means.
type Mode string

// The modes.
const (
	// AutoBackground sends it to the background by itself: a timeout is how long the
	// call waits. The default.
	AutoBackground Mode = "auto_background"
	// AlwaysForeground waits for it: a timeout is how long it may run.
	AlwaysForeground Mode = "always_foreground"
	// ExplicitOnly waits for it unless the call asked for the background: a timeout
	// is how long it may run in the foreground.
	ExplicitOnly Mode = "explicit_only"
)

// Description returns what a model is told of the tool that runs commands, in this
// mode. It depends on the names of tools and on NoNotices: what is not there is not
// mentioned. A custom text that is not empty replaces it.
func (m Mode) Description(custom string, o RenderOptions) string {
	if custom != "" {
		return custom
	}
	if m != AlwaysForeground && m != ExplicitOnly {
		m = AutoBackground
	}
	s := o.settings()
	var b strings.Builder
	for line := range strings.Lines(text(string(m) + ".md")) {
		switch {
		case s.OutputTool == NoTool && strings.Contains(line, "{output_tool}"),
			s.StopTool == NoTool && strings.Contains(line, "{stop_tool}"),
			s.NoNotices && strings.Contains(line, "{notices}"):
			continue
		}
		b.WriteString(fill(line, "output_tool", s.OutputTool, "stop_tool", s.StopTool, "notices", ""))
	}
	return b.String()
}

// Schema returns the JSON schema of the tool's arguments. It is the same in all modes
// and says nothing that depends on one.
func Schema() json.RawMessage { return json.RawMessage(text("arguments.json")) }

// text returns an embedded file.
func text(name string) string {
	b, err := texts.ReadFile("text/" + name)
	if err != nil {
		panic(err) // it is part of the program
	}
	return string(b)
}
