package cli

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/yaml"

	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/ui/board"
	"lockstep/ui/report"
)

// editor edits an operation under way from its own screen (R46).
type editor struct {
	op *kube.Operation
	// reload loads the chart anew from its folder; nil where it has none.
	reload func(context.Context) (*charts.Chart, error)
}

// valuesHead begins the file that the user edits.
const valuesHead = `# The values of release %s that were given, not those that its chart has by itself.
# What is saved here becomes the next revision, once it has been looked at.
`

func (e editor) Values() (string, error) {
	if err := e.op.Editable(); err != nil {
		return "", err
	}
	values, err := e.op.Values(false)
	if err != nil {
		return "", err
	}
	text := ""
	if len(values) > 0 {
		text, err = charts.YAML(values)
	}
	return fmt.Sprintf(valuesHead, e.op.Info().Release) + text, err
}

func (e editor) Edit(ctx context.Context, text string) (board.Edited, error) {
	var values map[string]any
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		return board.Edited{}, fmt.Errorf("read the edited values: %w", err)
	}
	return e.edited(ctx, values, nil)
}

func (e editor) Again(ctx context.Context) (board.Edited, error) {
	if e.reload == nil {
		return board.Edited{}, errors.New("the chart is not a folder that could have changed")
	}
	values, err := e.op.Values(false)
	if err != nil {
		return board.Edited{}, err
	}
	c, err := e.reload(ctx)
	if err != nil {
		return board.Edited{}, err
	}
	return e.edited(ctx, values, c)
}

func (e editor) edited(ctx context.Context, values map[string]any, c *charts.Chart) (board.Edited, error) {
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
