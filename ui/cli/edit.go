package cli

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"

	"lockstep/kube"
	"lockstep/ui/board"
	"lockstep/ui/report"
)

// editor edits an operation under way from its own screen (R46).
type editor struct {
	op     *kube.Operation
	folder *chartFolder // of its chart; nil where that has none
}

// What begins the file that the user edits.
const (
	valuesHead = `# The values of release %s that were given, not those that its chart has by itself.
# What is saved here becomes the next revision, once it has been looked at.
`
	allValuesHead = `# All values of release %s, also those that its charts have by themselves.
# What is changed here is given with the next revision, once it has been looked at.
`
)

func (e editor) Values(all bool) (string, error) {
	if err := e.op.Editable(); err != nil {
		return "", err
	}
	values, err := e.op.Values(all)
	if err != nil {
		return "", err
	}
	head, text := valuesHead, ""
	if all {
		head = allValuesHead
	}
	if len(values) > 0 {
		text, err = kube.YAML(values)
	}
	return fmt.Sprintf(head, e.op.Info().Release) + text, err
}

func (e editor) Edit(ctx context.Context, text string, all bool) (board.Edited, error) {
	var values map[string]any
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		return board.Edited{}, fmt.Errorf("read the edited values: %w", err)
	}
	if all {
		given, err := e.given(values)
		if err != nil {
			return board.Edited{}, err
		}
		values = given
	}
	return e.edited(ctx, values, nil)
}

// given are the values that the user gives when all values have been edited.
func (e editor) given(edited map[string]any) (map[string]any, error) {
	text, err := e.Values(true) // as the user got them: numbers are read alike
	if err != nil {
		return nil, err
	}
	var was map[string]any
	if err := yaml.Unmarshal([]byte(text), &was); err != nil {
		return nil, fmt.Errorf("read all values: %w", err)
	}
	given, err := e.op.Values(false)
	if err == nil {
		kube.GiveValues(given, was, edited)
	}
	return given, err
}

func (e editor) Again(ctx context.Context) (board.Edited, error) {
	if e.folder == nil {
		return board.Edited{}, errors.New("the chart is not a folder that could have changed")
	}
	values, err := e.op.Values(false)
	if err != nil {
		return board.Edited{}, err
	}
	c, err := e.folder.again(ctx)
	if err != nil {
		return board.Edited{}, err
	}
	return e.edited(ctx, values, c)
}

func (e editor) ChartChanged() bool { return e.folder != nil && e.folder.changed() }

func (e editor) edited(ctx context.Context, values map[string]any, c *kube.Chart) (board.Edited, error) {
	made, err := e.op.Edit(ctx, values, c)
	if err != nil {
		return board.Edited{}, err
	}
	changes, err := made.Changes()
	if err != nil {
		return board.Edited{}, err
	}
	what := report.Edit{Operation: made.Info(), Before: made.Before(), After: made.Phases(), Changes: toldChanges(changes), Warnings: made.Warnings()}
	return board.Edited{Lines: what.Lines(), Order: made.Command()}, nil
}
