package helmfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"lockstep/engine/text"
	"lockstep/kube/mask"
)

// programs runs the programs that read secrets: sops or "helm secrets", and vals. It runs each command once, because some ask
// people, and keeps the outputs in memory; they are never written to a file.
type programs struct {
	mu      sync.Mutex
	outputs map[string]*output
}

// maxOutput and maxMessages limit what is kept of the output of a program and of its messages, in bytes.
const (
	maxOutput   = 64 << 20
	maxMessages = 64 << 10
)

// limited keeps the first bytes that are written to it, at most most. Writing more fails, which ends the program, unless drop is set.
type limited struct {
	buf        bytes.Buffer
	most       int
	drop, over bool
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	room := max(l.most-l.buf.Len(), 0)
	if len(p) <= room {
		return l.buf.Write(p)
	}
	l.over = true
	_, _ = l.buf.Write(p[:room])
	if l.drop {
		return len(p), nil
	}
	return room, errTooMuch
}

var errTooMuch = fmt.Errorf("its output has more than %d MiB", maxOutput>>20)

type output struct {
	mu   sync.Mutex
	data []byte // nil until the command has succeeded
}

// run returns the output of a program.
func (p *programs) run(ctx context.Context, dir, stdin, program string, args ...string) ([]byte, error) {
	key := strings.Join(append([]string{dir, stdin, program}, args...), "\x00")
	p.mu.Lock()
	if p.outputs == nil {
		p.outputs = map[string]*output{}
	}
	o := p.outputs[key]
	if o == nil {
		o = &output{}
		p.outputs[key] = o
	}
	p.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.data != nil {
		return o.data, nil
	}
	stdout, stderr := limited{most: maxOutput}, limited{most: maxMessages, drop: true}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, strings.NewReader(stdin), &stdout, &stderr
	cmd.WaitDelay = time.Second // a child, such as gpg-agent, may keep its output open
	err := cmd.Run()
	if stdout.over {
		return nil, fmt.Errorf("%s %s: %w", filepath.Base(program), args[0], errTooMuch)
	}
	if err != nil {
		var exit *exec.ExitError
		if said := text.CollapseSpace(stderr.buf.String()); errors.As(err, &exit) && said != "" {
			err = errors.New(said)
		}
		return nil, fmt.Errorf("%s %s: %w", filepath.Base(program), args[0], err)
	}
	o.data = append([]byte{}, stdout.buf.Bytes()...)
	return o.data, nil
}

// decrypt returns the content of an entry of secrets: of a file, or of the mapping that helmfile build made of one.
func (p *programs) decrypt(ctx context.Context, item *node, file, what string) (map[string]any, error) {
	program, args, stdin, err := decryptCommand(ctx, item, file)
	if err != nil {
		return nil, item.errorf("%s: %w", what, err)
	}
	dir := filepath.Dir(item.path)
	if file != "" {
		dir = filepath.Dir(file)
	}
	data, err := p.run(ctx, dir, stdin, program, args...)
	if err != nil {
		return nil, item.errorf("%s: decrypt %s: %w", what, fileOrMapping(file), err)
	}
	content := map[string]any{}
	if err := yaml.Unmarshal(data, &content); err != nil { // the error may quote a secret
		return nil, item.errorf("%s: decrypt %s: the result is no YAML mapping", what, fileOrMapping(file))
	}
	return content, nil
}

// decryptCommand returns the command that decrypts an entry, with its input.
func decryptCommand(ctx context.Context, item *node, file string) (program string, args []string, stdin string, err error) {
	sops, noSops := exec.LookPath("sops")
	helm, noHelm := exec.LookPath("helm")
	switch {
	case noSops == nil:
		args = []string{"--decrypt"}
		if file == "" {
			file = "/dev/stdin"
			stdin, err = kyaml.String(item.Node)
		} else if file, err = filepath.Abs(file); err != nil {
			return "", nil, "", err
		}
		switch filepath.Ext(file) {
		case ".yaml", ".yml", ".json", ".env", ".ini":
		default: // sops would take it for a binary file
			args = append(args, "--input-type", "yaml")
		}
		return sops, append(args, "--output-type", "yaml", file), stdin, err
	case noHelm == nil && file != "" && hasHelmSecrets(ctx, helm):
		file, err = filepath.Abs(file)
		return helm, []string{"secrets", "decrypt", file}, "", err
	}
	return "", nil, "", fmt.Errorf("decrypting %s needs sops, or Helm with its plugin secrets, and neither is installed; install sops, "+
		"or decrypt it where that is installed and name the result under values", fileOrMapping(file))
}

// hasHelmSecrets reports whether Helm has the plugin secrets.
func hasHelmSecrets(ctx context.Context, helm string) bool {
	out := limited{most: maxOutput}
	cmd := exec.CommandContext(ctx, helm, "plugin", "list")
	cmd.Stdout = &out
	err := cmd.Run()
	for line := range strings.Lines(out.buf.String()) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == "secrets" {
			return err == nil
		}
	}
	return false
}

func fileOrMapping(file string) string {
	if file == "" {
		return "a mapping"
	}
	return filepath.Base(file)
}

// secretSources returns the decrypted secrets. All their values are secret.
func (v *values) secretSources(ctx context.Context) (out []source, err error) {
	what := v.name + ": secrets"
	items, err := v.own["secrets"].items(what)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		file := ""
		if item.Kind != kyaml.MappingNode {
			if hasTemplate(item.Value) {
				return nil, item.errorf("%s: lockstep does not render %s; name the file, or %s", what, item.Value, useHelmfile)
			}
			if file, err = v.findFile(item, what, "file"); err != nil {
				return nil, err
			}
			if file == "" {
				continue
			}
		}
		content, err := v.programs.decrypt(ctx, item, file, what)
		if err != nil {
			return nil, err
		}
		out = append(out, source{inline: content, secret: mask.PathsOf(content), at: item.at()})
	}
	return out, nil
}

// onlyHelmfile reports whether references in values files have to be resolved by helmfile, because vals is not installed.
func onlyHelmfile() bool {
	_, noVals := exec.LookPath("vals")
	_, noHelmfile := exec.LookPath("helmfile")
	return noVals != nil && noHelmfile == nil
}

// resolve replaces the references (ref+…) in sources by what vals says. These values are secret.
func (v *values) resolve(ctx context.Context, sources []source) error {
	var asked []string
	var at *position
	for i := range sources {
		sources[i].eachReference(func(reference string) any {
			if at == nil {
				at = &sources[i].at
			}
			asked = append(asked, reference)
			return reference
		})
	}
	if at == nil {
		return nil
	}
	answers, err := v.programs.askVals(ctx, v.folder, asked)
	if err != nil {
		return at.errorf("%s: %w", v.name, err)
	}
	for i := range sources {
		sources[i].eachReference(func(string) any {
			answer := answers[0]
			answers = answers[1:]
			return answer
		})
	}
	return nil
}

// askVals returns the values of texts with references.
func (p *programs) askVals(ctx context.Context, dir string, references []string) ([]any, error) {
	vals, err := exec.LookPath("vals")
	if err != nil {
		return nil, errors.New("references (ref+) need vals, which is not in PATH; install it, or resolve them where it is installed and deploy the result")
	}
	input, err := yaml.Marshal(map[string]any{"values": references})
	if err != nil {
		return nil, err
	}
	data, err := p.run(ctx, dir, string(input), vals, "eval", "-o", "yaml", "-f", "-")
	if err != nil {
		return nil, err
	}
	var answers struct{ Values []any }
	if err := yaml.Unmarshal(data, &answers); err != nil || len(answers.Values) != len(references) { // the error may quote a secret
		return nil, fmt.Errorf("vals eval: the result does not have a value for each of %s", text.Count(len(references), "reference"))
	}
	return answers.Values, nil
}

// eachReference replaces each text with references by the result of a function, always in the same order, and notes that it is
// secret.
func (s *source) eachReference(replace func(reference string) any) {
	if isReference(s.set.Value) {
		s.set.Value = fmt.Sprint(replace(s.set.Value))
		s.secret = append(s.secret, s.set.paths()...)
	}
	mask.Each(s.inline, func(path string, scalar any) any {
		reference, isText := scalar.(string)
		if !isText || !isReference(reference) {
			return scalar
		}
		s.secret = append(s.secret, path)
		return replace(reference)
	})
}

// paths returns the places of what a set sets.
func (s Set) paths() mask.Paths {
	values := map[string]any{}
	s.Value = "x"
	if err := s.apply(values, nil); err != nil { // which Merge reports
		return nil
	}
	return mask.PathsOf(values)
}
