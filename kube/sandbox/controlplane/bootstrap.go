package controlplane

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

const (
	bootstrapHook    = "sandbox/bootstrap"
	bootstrapWorkers = 8
	bootstrapRetry   = 50 * time.Millisecond
	bootstrapTimeout = 30 * time.Second
)

// replaceBootstrap makes bootstrap create the API server's default roles and priority classes. The API server would
// wait a second for etcd, which already runs, and create them one after the other, which doubles the time of a start.
func replaceBootstrap(c *genericapiserver.Config) error {
	c.DisabledPostStartHooks.Insert(rbacrest.PostStartHookName, schedulingrest.PostStartHookName)
	return c.AddPostStartHook(bootstrapHook, func(hook genericapiserver.PostStartHookContext) error {
		client, err := kubernetes.NewForConfig(hook.LoopbackClientConfig)
		if err != nil {
			return err
		}
		return bootstrap(hook.Context, client)
	})
}

// bootstrap creates or updates the priority classes, roles and bindings that every cluster has.
func bootstrap(ctx context.Context, client kubernetes.Interface) error {
	var all errgroup.Group
	all.SetLimit(bootstrapWorkers)
	ensure := func(what, name string, reconcile func() error) {
		all.Go(func() error {
			var last error
			err := wait.PollUntilContextTimeout(ctx, bootstrapRetry, bootstrapTimeout, true, func(context.Context) (bool, error) {
				last = reconcile()
				return last == nil, nil
			})
			if err != nil {
				return fmt.Errorf("create %s %s: %w (last error: %v)", what, name, err, last)
			}
			return nil
		})
	}
	for _, class := range schedulingv1.SystemPriorityClasses() {
		ensure("PriorityClass", class.Name, func() error {
			_, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
	}
	role := func(what string, owner reconciliation.RuleOwner, modifier reconciliation.RuleOwnerModifier) {
		o := reconciliation.ReconcileRoleOptions{Role: owner, Client: modifier, Confirm: true}
		ensure(what, owner.GetName(), func() error { _, err := o.Run(); return err })
	}
	binding := func(what string, b reconciliation.RoleBinding, modifier reconciliation.RoleBindingModifier) {
		o := reconciliation.ReconcileRoleBindingOptions{RoleBinding: b, Client: modifier, Confirm: true}
		ensure(what, b.GetName(), func() error { _, err := o.Run(); return err })
	}
	rbac, namespaces := client.RbacV1(), client.CoreV1().Namespaces()
	for _, r := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		role("ClusterRole", reconciliation.ClusterRoleRuleOwner{ClusterRole: &r}, reconciliation.ClusterRoleModifier{Client: rbac.ClusterRoles()})
	}
	for _, b := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		binding("ClusterRoleBinding", reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: &b},
			reconciliation.ClusterRoleBindingClientAdapter{Client: rbac.ClusterRoleBindings()})
	}
	for _, roles := range bootstrappolicy.NamespaceRoles() {
		for _, r := range roles {
			role("Role", reconciliation.RoleRuleOwner{Role: &r}, reconciliation.RoleModifier{Client: rbac, NamespaceClient: namespaces})
		}
	}
	for _, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, b := range bindings {
			binding("RoleBinding", reconciliation.RoleBindingAdapter{RoleBinding: &b},
				reconciliation.RoleBindingClientAdapter{Client: rbac, NamespaceClient: namespaces})
		}
	}
	return all.Wait()
}
