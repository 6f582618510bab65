package chartchecks

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Cluster is what the checks read.
type Cluster interface {
	Version() (string, error)
	Nodes() ([]corev1.Node, error)
	// APIGroups returns the names of the API groups.
	APIGroups() ([]string, error)
	StorageClasses() ([]storagev1.StorageClass, error)
	// HasCRD reports whether a CustomResourceDefinition exists.
	HasCRD(name string) (bool, error)
	// PullSecrets returns the registries for which the namespace has credentials.
	PullSecrets() (registries []string, err error)
}

// Result is the result of a check that did not pass.
type Result struct {
	// Name is the name of the check, Message what the chart says.
	Name, Message string
	// Fail is set for a failure; otherwise it is a warning. A Strict failure must not be ignored.
	Fail, Strict bool
	// NotRun names the checks of an object that lockstep does not run; the other fields are then empty.
	NotRun []string
	// Err is why the check could not be run.
	Err error
}

// Run runs the checks in an object. It returns nothing for an object without checks.
func Run(object map[string]any, cluster Cluster) (results []Result) {
	specs, err := read(object)
	if err != nil {
		return []Result{{Name: "checks", Err: err}}
	}
	for _, s := range specs {
		for _, a := range s.Spec.Analyzers {
			for _, kind := range slices.Sorted(maps.Keys(a)) {
				if title, runs := titles[kind]; runs {
					if r := check(kind, title, a[kind], cluster); r != nil {
						results = append(results, *r)
					}
				}
			}
		}
		if names := s.notRun(); len(names) > 0 {
			results = append(results, Result{NotRun: names})
		}
	}
	return results
}

// check runs one analyzer. It returns nil if it passes or is excluded.
func check(kind, title string, text json.RawMessage, cluster Cluster) *Result {
	var a analyzer
	if err := json.Unmarshal(text, &a); err != nil {
		return &Result{Name: title, Err: errors.New("its fields are invalid")}
	}
	if a.CheckName != "" {
		title = a.CheckName
	}
	if a.Exclude {
		return nil
	}
	found, err := a.outcome(kind, cluster)
	if err != nil {
		return &Result{Name: title, Err: err}
	}
	switch {
	case found.Fail != nil:
		return &Result{Name: title, Message: found.Fail.Message, Fail: true, Strict: bool(a.Strict)}
	case found.Warn != nil:
		return &Result{Name: title, Message: found.Warn.Message}
	}
	return nil
}

// outcome returns the outcome that applies, the zero value if none does.
func (a analyzer) outcome(kind string, cluster Cluster) (outcome, error) {
	switch kind {
	case "clusterVersion":
		version, err := cluster.Version()
		if err != nil {
			return outcome{}, fmt.Errorf("read the version of the cluster: %w", err)
		}
		return a.first(func(when string) (bool, error) { return versionMatches(version, when) })
	case "nodeResources":
		nodes, err := cluster.Nodes()
		if err != nil {
			return outcome{}, fmt.Errorf("list nodes: %w", err)
		}
		if nodes, err = a.Filters.pick(nodes); err != nil {
			return outcome{}, err
		}
		return a.first(func(when string) (bool, error) { return nodesMatch(nodes, when, a.Filters.ResourceName) })
	}
	if kind == "distribution" {
		found, err := distributions(cluster)
		if err != nil {
			return outcome{}, err
		}
		return a.first(func(when string) (bool, error) { return distributionMatches(found, when) })
	}
	exists, err := a.exists(kind, cluster)
	if err != nil {
		return outcome{}, err
	}
	return a.byExistence(exists), nil
}

// first returns the first outcome whose condition holds; one without a condition always holds.
func (a analyzer) first(holds func(when string) (bool, error)) (outcome, error) {
	for _, o := range a.Outcomes {
		for _, s := range []*single{o.Fail, o.Warn, o.Pass} {
			if s == nil {
				continue
			}
			if s.When == "" {
				return o, nil
			}
			ok, err := holds(s.When)
			if err != nil {
				return outcome{}, fmt.Errorf("condition %q: %w", s.When, err)
			}
			if ok {
				return o, nil
			}
			break
		}
	}
	return outcome{}, nil
}

// byExistence returns the pass outcome or the fail outcome, which has a default message if the chart has none.
func (a analyzer) byExistence(exists bool) outcome {
	if exists {
		return outcome{}
	}
	for _, o := range a.Outcomes {
		if o.Fail != nil {
			return o
		}
	}
	return outcome{Fail: &single{}}
}

// exists reports whether the cluster has the object that an analyzer looks for.
func (a analyzer) exists(kind string, cluster Cluster) (bool, error) {
	switch kind {
	case "storageClass":
		classes, err := cluster.StorageClasses()
		if err != nil {
			return false, fmt.Errorf("list storage classes: %w", err)
		}
		return slices.ContainsFunc(classes, func(c storagev1.StorageClass) bool {
			return c.Name == a.StorageClassName || a.StorageClassName == "" && c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true"
		}), nil
	case "imagePullSecret":
		registries, err := cluster.PullSecrets()
		if err != nil {
			return false, fmt.Errorf("list Secrets: %w", err)
		}
		return slices.Contains(registries, a.RegistryName), nil
	}
	exists, err := cluster.HasCRD(a.CustomResourceDefinitionName)
	if err != nil {
		return false, fmt.Errorf("read CustomResourceDefinition/%s: %w", a.CustomResourceDefinitionName, err)
	}
	return exists, nil
}
