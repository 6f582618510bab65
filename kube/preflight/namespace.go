package preflight

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CheckNamespace tells whether the namespace has to be created. One that is
// missing and not to be created is an error; that it cannot be looked at is
// not.
func (s *Session) CheckNamespace(create bool) (missing bool, err error) {
	name := s.Common.Namespace
	_, err = s.Client.Clientset.CoreV1().Namespaces().Get(s.Context, name, metav1.GetOptions{})
	switch {
	case err == nil || apierrors.IsForbidden(err):
		return false, nil
	case !apierrors.IsNotFound(err):
		return false, fmt.Errorf("look at namespace %s: %w", name, err)
	case !create:
		return false, fmt.Errorf("namespace %s does not exist: create it, or use --create-namespace", name)
	}
	return true, nil
}
