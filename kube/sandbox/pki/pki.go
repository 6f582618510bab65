// Package pki creates the certificate authority of a sandbox, the certificates of its components, and the
// tokens of its users. Its central type is PKI.
package pki

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"
)

// Files in the folder of a PKI. Each certificate X.crt has its key in X.key.
const (
	CACert            = "ca.crt"
	ServiceAccountKey = serviceAccount + ".key"
	APIServer         = "apiserver"
	KubeletClient     = "kubelet-client"
	KubeletServer     = "kubelet-server"
	FrontProxy        = "front-proxy"
	// Tokens maps each token to a user, for the API server's --token-auth-file.
	Tokens = "tokens.csv"

	ca             = "ca"
	serviceAccount = "sa"
)

// algorithm is the algorithm of all keys.
const algorithm = kubeadm.EncryptionAlgorithmECDSAP256

// User is the user of a kubeconfig.
type User struct {
	Name  string
	Group string // "" for none
}

// The users of a sandbox. They authenticate with tokens: verifying a client certificate for each request would
// take a sixth of the API server's time.
var (
	Admin             = User{"sandbox-admin", "system:masters"}
	Kubelet           = User{"system:sandbox:kubelet", "system:masters"}
	ControllerManager = User{"system:kube-controller-manager", ""}
	Scheduler         = User{"system:kube-scheduler", ""}
)

var users = []User{Admin, Kubelet, ControllerManager, Scheduler}

// PKI is the certificate authority of one sandbox, kept in a folder.
type PKI struct {
	dir    string
	cert   *x509.Certificate
	key    crypto.Signer
	tokens map[User]string
}

// Open reads the authority and the tokens from dir, or creates them, so kubeconfigs and service account tokens
// remain valid after a restart. It issues new certificates for the components.
func Open(dir string) (*PKI, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	p := &PKI{dir: dir}
	err := p.load()
	if errors.Is(err, fs.ErrNotExist) {
		err = p.create()
	}
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	if err := p.loadTokens(); err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	if err := cmp.Or(
		p.issue(APIServer, "kube-apiserver"),
		p.issue(KubeletClient, "kube-apiserver-kubelet-client", "system:masters"),
		p.issue(KubeletServer, "system:node:sandbox", "system:nodes"),
		p.issue(FrontProxy, "front-proxy-client"),
	); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	return p, nil
}

// Dir returns the folder of the PKI.
func (p *PKI) Dir() string { return p.dir }

// Path returns the path of a file of the PKI.
func (p *PKI) Path(name string) string { return filepath.Join(p.dir, name) }

// Pool returns a pool with only the authority.
func (p *PKI) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(p.cert)
	return pool
}

// WriteKubeconfig writes a user's kubeconfig to file, with mode 0600.
func (p *PKI) WriteKubeconfig(file, server string, user User) error {
	c := clientcmdapi.NewConfig()
	c.Clusters[clusterName] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: pkiutil.EncodeCertPEM(p.cert)}
	c.AuthInfos[user.Name] = &clientcmdapi.AuthInfo{Token: p.tokens[user]}
	c.Contexts[clusterName] = &clientcmdapi.Context{Cluster: clusterName, AuthInfo: user.Name, Namespace: "default"}
	c.CurrentContext = clusterName
	return clientcmd.WriteToFile(*c, file)
}

// clusterName is the name of the cluster and the context in every kubeconfig.
const clusterName = "lockstep-sandbox"

// CanOverwrite reports whether file may be overwritten with a kubeconfig: it is empty, or has only the cluster and
// the user of a sandbox.
func CanOverwrite(file string) bool {
	c, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return false
	}
	_, ours := c.Clusters[clusterName]
	return len(c.Clusters) == 0 && len(c.AuthInfos) == 0 || ours && len(c.Clusters) == 1 && len(c.AuthInfos) == 1
}

// loadTokens reads the users' tokens and creates missing ones.
func (p *PKI) loadTokens() error {
	p.tokens = map[User]string{}
	kept, err := os.ReadFile(p.Path(Tokens))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lines, err := csv.NewReader(bytes.NewReader(kept)).ReadAll()
	if err != nil {
		return fmt.Errorf("%s is damaged, delete it to create new tokens: %w", p.Path(Tokens), err)
	}
	for _, user := range users {
		p.tokens[user] = rand.Text()
		for _, l := range lines {
			if len(l) > 1 && l[1] == user.Name {
				p.tokens[user] = l[0]
			}
		}
	}
	var all bytes.Buffer
	out := csv.NewWriter(&all)
	for _, user := range users {
		_ = out.Write([]string{p.tokens[user], user.Name, user.Name, user.Group})
	}
	out.Flush()
	return os.WriteFile(p.Path(Tokens), all.Bytes(), 0o600)
}

func (p *PKI) load() error {
	if _, err := os.Stat(p.Path(ServiceAccountKey)); err != nil {
		return err
	}
	pair, err := p.Certificate(ca)
	if err != nil {
		return fmt.Errorf("%s: %w", p.dir, err)
	}
	p.cert, p.key = pair.Leaf, pair.PrivateKey.(crypto.Signer)
	return nil
}

func (p *PKI) create() error {
	var err error
	p.cert, p.key, err = pkiutil.NewCertificateAuthority(&pkiutil.CertConfig{EncryptionAlgorithm: algorithm,
		Config: cert.Config{CommonName: "lockstep-sandbox-ca", NotBefore: time.Now().Add(-time.Hour)}})
	if err != nil {
		return err
	}
	account, err := pkiutil.NewPrivateKey(algorithm)
	if err != nil {
		return err
	}
	// The certificate is written last: without it, load fails and the next start creates all files again.
	return cmp.Or(pkiutil.WriteKey(p.dir, serviceAccount, account), pkiutil.WriteCertAndKey(p.dir, ca, p.cert, p.key))
}

// issue creates a certificate and its key for a user, valid as long as the authority.
func (p *PKI) issue(file, user string, groups ...string) error {
	c, key, err := pkiutil.NewCertAndKey(p.cert, p.key, &pkiutil.CertConfig{
		Config: cert.Config{
			CommonName: user, Organization: groups,
			Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
			AltNames: cert.AltNames{
				IPs:      []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
				DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
			},
		},
		NotAfter: p.cert.NotAfter, EncryptionAlgorithm: algorithm,
	})
	if err != nil {
		return err
	}
	return pkiutil.WriteCertAndKey(p.dir, file, c, key)
}

// Certificate returns a certificate and its key.
func (p *PKI) Certificate(name string) (tls.Certificate, error) {
	return tls.LoadX509KeyPair(p.Path(name+".crt"), p.Path(name+".key"))
}
