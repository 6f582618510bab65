package diagnose

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lockstep/engine/plan"
	"lockstep/kube/mask"
)

// ErrAbsent is why an object cannot be shown that is not in the cluster.
var ErrAbsent = errors.New("it is not in the cluster")

// Manifest returns the live object as YAML, without managed fields, and with
// secret values hidden.
func (d *Diagnoser) Manifest(ctx context.Context, o plan.Object) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	live, err := d.get(ctx, o)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return "", fmt.Errorf("read %s: %w", o, ErrAbsent)
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", o, err)
	}
	text, err := yaml.Marshal(show(live).Object)
	if err != nil {
		return "", fmt.Errorf("print %s: %w", o, err)
	}
	return string(text), nil
}

// show returns a copy of an object without what people should not see.
func show(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	u.SetManagedFields(nil)
	mask.Object(u.Object, nil)
	return u
}
