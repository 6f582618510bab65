//go:build unix

package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// run runs a shell script and returns its output.
func run(t *testing.T, ctx context.Context, script string) (lines []string, batches int, err error) {
	t.Helper()
	err = Program{Command: "sh", Args: []string{"-c", script}, Dir: t.TempDir()}.Run(ctx, func(more []string) {
		lines, batches = append(lines, more...), batches+1
	})
	return lines, batches, err
}

// TestRun (S11a): the output of programs in lines, and how they end.
func TestRun(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, script, lines, err string }{
		{"both streams", "echo out; echo err >&2; printf rest", "out|err|rest", ""},
		{"an exit code", "echo no; exit 3", "no", "exited with code 3"},
		{"a signal", "kill -9 $$", "", "killed by signal: killed"},
		{"no line breaks of Windows", `printf 'a\r\nb\r\n'`, "a|b", ""},
		{"invalid UTF-8", `printf 'a\377\n'`, "a\uFFFD", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			lines, _, err := run(t, t.Context(), test.script)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if got := strings.Join(lines, "|"); got != test.lines || text != test.err {
				t.Errorf("%q, %q, want %q, %q", got, text, test.lines, test.err)
			}
		})
	}
	if err := (Program{Command: "./missing", Dir: t.TempDir()}).Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "start ./missing") {
		t.Errorf("a missing program: %v", err)
	}
}

// TestFlood (S11a): of much output, the start and the end are passed on.
func TestFlood(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"seq 1000000", "head -c 30000000 /dev/zero | tr '\\0' x; echo; echo 1000000"} {
		lines, batches, err := run(t, t.Context(), script)
		size := 0
		for _, l := range lines {
			size += len(l)
		}
		if err != nil || size > maxBytes+maxTail*maxLine || len(lines) > maxLines+maxTail+1 || lines[len(lines)-1] != "1000000" {
			t.Errorf("%s: %d lines in %d batches, %d bytes, the last is %.20q, %v", script, len(lines), batches, size, lines[len(lines)-1], err)
		}
	}
}

// TestEndsWithItsChildren (S11a): when the run ends, so do the program and its children, even if they ignore the request to end.
func TestEndsWithItsChildren(t *testing.T) {
	t.Parallel()
	ended := errors.New("the run was aborted")
	for name, script := range map[string]string{"they end": "sleep 1000 & echo $!; wait", "they do not": "trap '' TERM; sleep 1000 & echo $!; while :; do sleep 1; done"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			child := 0
			err := Program{Command: "sh", Args: []string{"-c", script}}.Run(ctx, func(lines []string) {
				child, _ = strconv.Atoi(lines[0])
				cancel(ended)
			})
			if err != ended || child == 0 {
				t.Fatalf("%v, child %d", err, child)
			}
			for start := time.Now(); syscall.Kill(child, 0) == nil; time.Sleep(10 * time.Millisecond) {
				if state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child)); strings.Contains(string(state), ") Z ") {
					break // nobody collects it in a container without init
				}
				if time.Since(start) > 20*time.Second {
					t.Fatal("the child is still running")
				}
			}
		})
	}
}

// TestDaemon (S11a): a program that leaves a child with its output behind does not hang the run, and the child stays.
func TestDaemon(t *testing.T) {
	t.Parallel()
	lines, _, err := run(t, t.Context(), "sleep 1000 & echo $!")
	if err != nil || len(lines) != 1 {
		t.Fatal(lines, err)
	}
	child, _ := strconv.Atoi(lines[0])
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Errorf("the daemon is gone: %v", err)
	}
}

// TestFolder: a relative command is one of the folder.
func TestFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\nbasename $PWD; echo $WHO\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var got []string
	err := Program{Command: "./tool", Dir: dir, Env: []string{"WHO=ann"}}.Run(t.Context(), func(lines []string) { got = append(got, lines...) })
	if want := []string{filepath.Base(dir), "ann"}; err != nil || strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}
