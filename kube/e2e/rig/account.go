package rig

import (
	"path/filepath"

	"helm.sh/helm/v4/pkg/cli"
	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"lockstep/kube"
)

// Account returns a connection of a ServiceAccount of the rig's namespace, with its own token.
func (r *Rig) Account(name string) *kube.Client {
	r.T.Helper()
	token, err := r.Cluster.CoreV1().ServiceAccounts(r.Namespace).CreateToken(r.T.Context(), name, &authnv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		r.T.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(Sandbox.Kubeconfig)
	if err != nil {
		r.T.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	file := filepath.Join(r.T.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		r.T.Fatal(err)
	}
	return Connected(r.T, r.Namespace, func(s *cli.EnvSettings) { s.KubeConfig = file })
}
