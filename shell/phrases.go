// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Phrases are the fixed strings that are put around the output of a command. Words in
// braces are replaced; which ones a phrase may use is to be seen in [English]. Each
// phrase that frames output begins with a square bracket: a line of output that begins
// like one of them is escaped.
type Phrases struct {
	NoOutput, Blank                          string // code 0 and nothing to see
	Exit, Killed, OutOfMemory                string // ended by itself
	TimedOut, TimedOutSilent                 string // stopped after its time
	TimedOutNoLimit, TimedOutNoLimitSilent   string // the same, when the time is not known
	Stopped, OutputLimit, OutputLimitUnknown string // stopped for other reasons
	NotStarted                               string // could not be executed
	Lost, Unknown                            string // nobody knows

	ErrorNotStarted, ErrorStarted, ErrorMaybe string // the call failed, not the command

	Truncated, TruncatedRead             string // the notice of truncation
	Omitted                              string // stands where bytes are missing
	LeftoversStopped, LeftoverStopped    string // of several processes, of one
	LeftoverHint                         string // not with NoBackground
	LeftoversKept, LeftoverKept          string
	Incomplete                           string
	Started, Moved, MovedNow, CallerLeft string // receipts: asked for, by the timer, by the caller
	StillRunning, Ended                  string // notices
	NoTimeout, NoneYet, OutputSoFar      string // parts of a receipt
	LastOutput, CodePart, SignalPart     string // parts of a notice
	Read, Stop, WillBeTold               string // what to do next
	NoReason, NoTime                     string // stand for what is not known
}

// English returns the phrases that are used by default.
func English() Phrases {
	return Phrases{
		NoOutput:    "[no output]",
		Blank:       "[no visible output]",
		Exit:        "[exit code: {code}]",
		Killed:      "[killed by {signal}, exit code {code}{extra}]",
		OutOfMemory: " – out of memory",

		TimedOut:              "[timed out after {limit}: the command was stopped; the output above is what it had produced]",
		TimedOutSilent:        "[timed out after {limit}: the command was stopped; it had produced no output]",
		TimedOutNoLimit:       "[timed out: the command was stopped; the output above is what it had produced]",
		TimedOutNoLimitSilent: "[timed out: the command was stopped; it had produced no output]",

		Stopped:            "[stopped on request]",
		OutputLimit:        "[stopped: output exceeded {limit}]",
		OutputLimitUnknown: "[stopped: output exceeded its limit]",
		NotStarted:         "[could not start: {reason}]",
		Lost: "[outcome unknown: the process supervising this command was lost{reason}. " +
			"It may have run partly or fully. Check before running it again.]",
		Unknown: "[outcome unknown: no exit status was reported. " +
			"It may have run partly or fully. Check before running it again.]",

		ErrorNotStarted: "[error: {reason}. The command was not started.]",
		ErrorStarted: "[error: {reason}. The command was started and its outcome is unknown: " +
			"it may have run partly or fully, or still run. Check before running it again.]",
		ErrorMaybe: "[error: {reason}. Whether the command ran is unknown: " +
			"it may have run partly or fully, or still run. Check before running it again.]",

		Truncated:     "[output truncated: first {head} and last {tail} of {total} shown]",
		TruncatedRead: "[output truncated: first {head} and last {tail} of {total} shown; read the rest with {output_tool} id={id} offset={offset}]",
		Omitted:       "[… {n} bytes omitted …]",

		LeftoversStopped: "[{n} background processes left by this command were stopped{hint}]",
		LeftoverStopped:  "[{n} background process left by this command was stopped{hint}]",
		LeftoverHint:     "; use run_in_background for servers",
		LeftoversKept:    "[{n} background processes left by this command are still running]",
		LeftoverKept:     "[{n} background process left by this command is still running]",
		Incomplete:       "[some output may be missing: a background process kept the pipe open]",

		Started:      "[Started in background, not finished. id={id}; started {at}{timeout}. {output}",
		Moved:        "[Still running after {waited}, moved to background (not restarted). id={id}; started {at}. {output}",
		MovedNow:     "[Still running, moved to background (not restarted). id={id}; started {at}. {output}",
		CallerLeft:   "[Still running, moved to background because the caller left (not restarted). id={id}; started {at}. {output}",
		StillRunning: "[Still running after {waited}, not finished. id={id}; started {at}; {n} bytes of output. {output}",
		Ended:        "[Background command {status}. id={id}; {how}ran {ran}; {n} bytes of output.{output}",

		NoTimeout:   "; timeout does not apply",
		NoneYet:     "Output so far: none.",
		OutputSoFar: "Output so far:",
		LastOutput:  " Last output:",
		CodePart:    "exit code {code}; ",
		SignalPart:  "killed by {signal}; ",

		Read:       "Read: {output_tool}",
		Stop:       "stop: {stop_tool}",
		WillBeTold: "You will be told when it ends.",

		NoReason: "unknown reason",
		NoTime:   "at an unknown time",
	}
}

// withDefaults returns p with what is empty taken from English.
func (p *Phrases) withDefaults() Phrases {
	out := English()
	if p == nil {
		return out
	}
	from, to := reflect.ValueOf(*p), reflect.ValueOf(&out).Elem()
	for i := range to.NumField() {
		if s := from.Field(i).String(); s != "" {
			to.Field(i).SetString(s)
		}
	}
	return out
}

// formLen is how much of a phrase makes a line look like it.
const formLen = 16

// form is how the line of a phrase begins: first, then maybe a number and then.
type form struct{ first, then string }

// forms returns how the lines of all framing phrases begin, in lower case.
func (p *Phrases) forms() []form {
	v := reflect.ValueOf(*p)
	// The last line of receipts and notices is put together from parts.
	out := []form{{first: "[" + lead(p.Read)}, {first: "[" + lead(p.WillBeTold)}, {first: "[" + lead(p.Stop)}}
	for _, field := range v.Fields() {
		s := field.String()
		if !strings.HasPrefix(s, "[") {
			continue
		}
		f := form{first: lead(s)}
		if _, rest, ok := strings.Cut(s, "}"); f.first == "[" && ok {
			f.then = lead(rest)
		}
		out = append(out, f)
	}
	return out
}

// lead returns the first characters of s before anything that is replaced.
func lead(s string) string {
	s, _, _ = strings.Cut(s, "{")
	return strings.ToLower(cutText(s, formLen))
}

// matches reports whether a line begins like f.
func (f form) matches(line string) bool {
	rest, ok := cutFold(line, f.first)
	if !ok || f.then == "" {
		return ok
	}
	number := strings.TrimLeft(rest, "0123456789,.")
	_, ok = cutFold(number, f.then)
	return ok && len(number) < len(rest)
}

// cutFold is strings.CutPrefix without regard to case.
func cutFold(s, lower string) (string, bool) {
	if len(s) < len(lower) || strings.ToLower(s[:len(lower)]) != lower {
		return s, false
	}
	return s[len(lower):], true
}

// fill replaces words in braces: fill("{a}", "a", "1").
func fill(s string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		pairs[i] = "{" + pairs[i] + "}"
	}
	return strings.NewReplacer(pairs...).Replace(s)
}

// cutText returns at most n bytes of s, whole runes.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// maxInline bounds what others put into a note.
const maxInline = 300

// inline makes a text of others fit for the inside of a note: one line, no brackets.
func inline(s string) string {
	if len(s) > 4*maxInline {
		s = s[:4*maxInline]
	}
	s = strings.NewReplacer("\n", " ", "\t", " ", "[", "(", "]", ")", "\u2028", " ", "\u2029", " ").Replace(Normalize([]byte(s)))
	return strings.TrimRight(cutText(strings.TrimSpace(s), maxInline), " .")
}

// count writes a number with commas.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// size writes a number of bytes for reading: "512 bytes", "8 KiB", "1.4 MiB".
func size(n int64) string {
	if n == 1 {
		return "1 byte"
	}
	if n < 1<<10 {
		return count(n) + " bytes"
	}
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	f, unit := float64(n)/(1<<10), 0
	for f >= 1023.95 && unit < len(units)-1 {
		f /= 1 << 10
		unit++
	}
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0") + " " + units[unit]
}

// seconds writes a time limit the way it is asked for: in seconds.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

// lasted writes how long something took, with no more digits than one reads.
func lasted(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}
