package helmfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"lockstep/engine/plan"
)

// ImageKey is the key of a hook that runs in the cluster: the name of an image, or a mapping with more.
const ImageKey = "lockstep/image"

// Image is the container of a hook that runs as a Job in the cluster instead of on this machine (S11a). The Job has no
// environment variables but these.
type Image struct {
	Name string `yaml:"name" json:"name"`
	// Env are environment variables.
	Env map[string]string `yaml:"env" json:"env,omitempty"`
	// Secrets are names of Secrets in the namespace whose entries become environment variables.
	Secrets []string `yaml:"secrets" json:"secrets,omitempty"`
	// ServiceAccount is the account of the pod; without one, the pod gets no token.
	ServiceAccount string `yaml:"serviceAccount" json:"serviceAccount,omitempty"`
	// Annotations are those of the pod.
	Annotations map[string]string `yaml:"annotations" json:"annotations,omitempty"`
}

// Pod returns what a plan says of the pod, nil for nothing.
func (i *Image) Pod() *plan.StepPod {
	if len(i.Env)+len(i.Secrets) == 0 && i.ServiceAccount == "" {
		return nil
	}
	return &plan.StepPod{Env: slices.Sorted(maps.Keys(i.Env)), Secrets: i.Secrets, ServiceAccount: i.ServiceAccount}
}

// readImage reads the image of a hook. Its texts are templates.
func (h *Hook) readImage(what string, n *node) error {
	h.Image = &Image{}
	if n.Kind != kyaml.MappingNode {
		if err := n.decode(what+"hook: "+ImageKey, &h.Image.Name); err != nil {
			return err
		}
	} else {
		if _, err := n.mapping(what+ImageKey, imageKeys); err != nil {
			return err
		}
		if err := n.decode(what+ImageKey, h.Image); err != nil {
			return err
		}
	}
	if h.Image.Name == "" {
		return n.errorf("%shook: %s has no name of an image", what, ImageKey)
	}
	return nil
}

// rendered returns the image with all of its texts rendered.
func (i Image) rendered(render func(string) (string, error)) (*Image, error) {
	var err error
	text := func(t string) string {
		if err != nil {
			return ""
		}
		t, err = render(t)
		return t
	}
	i.Name, i.ServiceAccount = text(i.Name), text(i.ServiceAccount)
	i.Secrets = slices.Clone(i.Secrets)
	for n := range i.Secrets {
		i.Secrets[n] = text(i.Secrets[n])
	}
	i.Env, i.Annotations = maps.Clone(i.Env), maps.Clone(i.Annotations)
	for _, all := range []map[string]string{i.Env, i.Annotations} {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			all[key] = text(all[key])
		}
	}
	if err == nil && i.Name == "" {
		err = fmt.Errorf("%s is empty", ImageKey)
	}
	return &i, err
}

// packed returns a hook with an image for another machine, rendered at each of its events: it has no templates, because the
// files and the environment of this machine are not there.
func (h Hook) packed(down, ofFile bool) (all []map[string]any, err error) {
	for _, event := range h.Events {
		p, err := h.Program(At{Event: event, Command: CommandAt(event, down, ofFile)})
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(append([]string{h.command}, h.args...), func(t string) bool { return strings.Contains(t, ".Event.Error") }) {
			return nil, fmt.Errorf("%s: hook %s uses .Event.Error, which is not known before a run in the cluster: remove it, or run without --in-cluster", h.At, h.Name)
		}
		literal := func(t string) (string, error) { return strings.ReplaceAll(t, "{{", `{{"{{"}}`), nil }
		args := slices.Clone(p.Args)
		for i := range args {
			args[i], _ = literal(args[i])
		}
		command, _ := literal(p.Command)
		image, err := p.Image.rendered(literal)
		if err != nil {
			return nil, err
		}
		all = append(all, map[string]any{
			"name": h.Name, "events": []string{event}, "command": command, "args": args, "showlogs": h.ShowLogs, rerunKey: h.Rerun,
			noReturnKey: h.NoReturn, ImageKey: image,
		})
	}
	return all, nil
}

// CommandAt returns the command of helmfile that would run a hook of the file, or of a release, at an event.
func CommandAt(event string, down, ofFile bool) string {
	switch {
	case down && (ofFile || event == Prepare):
		return "destroy"
	case down:
		return "delete"
	case ofFile || event == Prepare || event == Preapply:
		return "apply"
	}
	return "sync"
}

// packedHooks returns hooks for another machine. Those without an image are programs of this one.
func packedHooks(hooks []Hook, down, ofFile bool) (all []map[string]any, err error) {
	for _, h := range hooks {
		packed, err := h.packed(down, ofFile)
		if err != nil {
			return nil, err
		}
		all = append(all, packed...)
	}
	return all, nil
}
