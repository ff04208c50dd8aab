// Copyright 2026 The outlive authors.
// SPDX-License-Identifier: Apache-2.0

// Package text is what the command line says in words.
package text

import (
	"fmt"
	"strconv"
	"strings"
)

// Nearest returns the known word that somebody probably meant, or "".
func Nearest(word string, known []string) string {
	best, at := "", 1+len(word)/3
	for _, k := range known {
		if d := distance(strings.ToLower(word), k); d <= at && (best == "" || d < at) {
			best, at = k, d
		}
		if best == "" && len(word) > 2 && strings.HasPrefix(k, word) {
			best = k
		}
	}
	return best
}

// distance is how many letters to add, drop, change or swap with the next make a
// into b.
func distance(a, b string) int {
	var last, prev, row []int
	row = make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		last, prev, row = prev, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], last[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

// Size is a number of bytes as people say it.
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// OneLine is a text without line ends.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// ParseSize reads a number of bytes such as 512m or 2GiB: letters are powers of 1024.
func ParseSize(s string) (int64, error) {
	digits := strings.TrimRight(strings.ToLower(s), "bikmgt")
	unit := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(s[len(digits):]), "b"), "i")
	power := strings.Index("kmgt", unit)
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || len(unit) > 1 || unit != "" && power < 0 || !(n > 0) || n > 1<<40 {
		return 0, fmt.Errorf("%q is no size: want one such as 512m or 2g", s)
	}
	if unit != "" {
		n *= float64(int64(1) << (10 * (power + 1)))
	}
	if n > 1<<60 {
		return 0, fmt.Errorf("%q is too large", s)
	}
	return int64(n), nil
}
