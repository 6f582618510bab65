package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"lockstep/kube/helmfile"
)

func main() {
	f, err := helmfile.Read(context.Background(), helmfile.Options{Path: os.Args[1], Environment: os.Args[2], Stdin: os.Stdin})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	type rel struct {
		Name, Namespace, Chart, Version, ID string
		Needs, After             []string
		Installed                bool
		Labels                   map[string]string
		Values                   map[string]any
		Err string
		Context string
	}
	out := []rel{}
	for _, r := range f.Releases {
		x := rel{Name: r.Name, Namespace: r.Namespace, Chart: r.Chart, Version: r.Version, ID: r.ID(), Needs: r.Needs, After: r.After, Installed: r.Installed, Labels: r.Labels, Context: r.Context}
		v, err := r.Merge(nil, os.ReadFile)
		if err != nil { x.Err = err.Error() }
		x.Values = v
		out = append(out, x)
	}
	_ = json.NewEncoder(os.Stdout).Encode(out)
}
