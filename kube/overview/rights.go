package overview

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/text"
	"lockstep/kube/connect"
	"lockstep/kube/permissions"
)

// Denied returns why operations are not permitted in a namespace, by their names; those that are not denied are missing. It asks
// for the user's rules once, so it knows only the permissions for release records, which all operations need.
func Denied(ctx context.Context, c *connect.Client, namespace string) (map[string]string, error) {
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	review, err := c.Clientset.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("ask what is permitted in namespace %s: %w", namespace, err)
	}
	denied := map[string]string{}
	for _, name := range []string{"install", "upgrade", "rollback", "uninstall", "test"} {
		op := permissions.Operation{Name: name, Namespace: namespace, Driver: connect.StorageDriver(), NoLease: true}
		if lacking := op.Permissions().Lacking(review.Status); len(lacking) > 0 {
			denied[name] = fmt.Sprintf("no permission to %s %s in namespace %s", text.JoinAnd(lacking.Verbs()), recordResource().Resource, namespace)
		}
	}
	return denied, nil
}
