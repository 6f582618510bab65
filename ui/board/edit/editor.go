package edit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// valuesEditor is a tea.ExecCommand that opens values in $VISUAL or $EDITOR. Values may be secret
// and editors leave copies, so the file is in a private directory that Run removes.
type valuesEditor struct {
	ctx    context.Context // kills the editor
	values string          // the editor's input, after Run its output
	atQuit func(func()) (undo func())
}

// Open opens values in the user's editor; an EditorClosed follows. atQuit may be nil; see New.
func Open(ctx context.Context, values string, atQuit func(func()) (undo func())) tea.Cmd {
	editor := &valuesEditor{ctx: ctx, values: values, atQuit: atQuit}
	return tea.Exec(editor, func(err error) tea.Msg { return EditorClosed{editor.values, err} })
}

// The editor gets the process's own terminal, not the screen's guarded streams.
func (e *valuesEditor) SetStdin(io.Reader)  {}
func (e *valuesEditor) SetStdout(io.Writer) {}
func (e *valuesEditor) SetStderr(io.Writer) {}

// lineFlags are the editors' flags for the line to start at. Not every vi supports +N.
var lineFlags = map[string]string{"vi": "-c", "vim": "-c", "nvim": "-c", "nano": "+", "emacs": "+"}

// atLine returns the arguments that make an editor start below the comments at the top.
func atLine(editor, text string) []string {
	first := 1
	for line := range strings.Lines(text) {
		if line[0] != '#' {
			break
		}
		first++
	}
	at := lineFlags[filepath.Base(editor)]
	switch {
	case first == 1 || at == "":
		return nil
	case at == "+":
		return []string{fmt.Sprintf("+%d", first)}
	}
	return []string{at, fmt.Sprint(first)}
}

// editorCommand returns the user's editor, and in parentheses the variable that set it.
func editorCommand() (command, from string) {
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if command := strings.TrimSpace(os.Getenv(name)); command != "" {
			return command, " (set by $" + name + ")"
		}
	}
	return "vi", ""
}

func (e *valuesEditor) Run() (err error) {
	dir, err := os.MkdirTemp("", "lockstep-values-*")
	if err != nil {
		return err
	}
	remove := func() error { return os.RemoveAll(dir) }
	defer func() { err = errors.Join(err, remove()) }()
	if e.atQuit != nil {
		defer e.atQuit(func() { _ = remove() })()
	}
	file := filepath.Join(dir, "values.yaml")
	if err := os.WriteFile(file, []byte(e.values), 0o600); err != nil {
		return err
	}
	command, from := editorCommand()
	words := strings.Fields(command)
	words = append(words, atLine(words[0], e.values)...)
	editor := exec.CommandContext(e.ctx, words[0], append(words[1:], file)...)
	editor.Stdin, editor.Stdout, editor.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := editor.Run(); err != nil {
		err = fmt.Errorf("editor %q%s: %w", words[0], from, err)
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			err = fmt.Errorf("%w; set $VISUAL or $EDITOR to another editor", err)
		}
		if text, readErr := os.ReadFile(file); readErr == nil { // the user may have saved before the editor failed
			e.values = string(text)
		}
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the edited values: %w", err)
	}
	e.values = string(text)
	return nil
}
