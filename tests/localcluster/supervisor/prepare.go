// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/localcluster/images"
	"github.com/scanyard/scanyard/tests/localcluster/pki"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
	"github.com/scanyard/scanyard/tests/localcluster/process"
)

// Request is what "up" was asked for.
type Request struct {
	// APIPort and S3Port are fixed ports, or 0 for free ones.
	APIPort, S3Port int
	Node            localcluster.NodeOptions
	JobSyncs        int
	// Audit has the API server write down each request.
	Audit bool
	// AuditWebhook is the kubeconfig of a webhook that is posted the same; "": none.
	AuditWebhook string
	// Authentication is a file with an AuthenticationConfiguration; "": none.
	Authentication string
}

// minFree is what etcd, logs and a few unpacked images need at the least.
const minFree = 1 << 30

// bucket and region are the same for every cluster, so that example manifests
// need not be changed.
const (
	bucket = "scanyard"
	region = "us-east-1"
)

// auditPolicy has each request written down once, when it has been answered, without its body.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
`

// Prepare checks everything that can be checked before a process is started,
// and lays out the data directory: a fresh one, or one that a stopped cluster
// left, whose data, ports and credentials are used again.
func Prepare(l localcluster.Layout, r Request, now time.Time) (*localcluster.State, error) {
	if r.Node.ImagesMap != "" {
		if _, err := images.LoadMap(r.Node.ImagesMap); err != nil {
			return nil, err
		}
	}
	if r.Node.Images != "" {
		if _, err := os.ReadDir(r.Node.Images); err != nil {
			return nil, fmt.Errorf("read images folder: %w", err)
		}
	}
	if r.Authentication != "" {
		if _, err := os.Stat(r.Authentication); err != nil {
			return nil, fmt.Errorf("find the authentication configuration: %w", err)
		}
	}
	if err := claim(l); err != nil {
		return nil, err
	}
	s, err := localcluster.LoadState(l)
	switch {
	case errors.Is(err, localcluster.ErrNoCluster):
		s = &localcluster.State{}
	case err != nil:
		return nil, err
	case s.Supervisor.Alive():
		return nil, fmt.Errorf("a cluster already runs in %s (supervisor pid %d): use it, or stop it with\n  localcluster down --data-dir %s", l, s.Supervisor.PID, l)
	}
	if err := choosePorts(&s.Ports, r); err != nil {
		return nil, err
	}
	if err := chooseCredentials(s); err != nil {
		return nil, err
	}
	self, err := process.Identify(os.Getpid())
	if err != nil {
		return nil, err
	}
	s.Supervisor, s.Ready, s.Node, s.JobSyncs, s.Audit, s.AuditWebhook = self, false, r.Node, r.JobSyncs, r.Audit, r.AuditWebhook
	s.Authentication = r.Authentication
	if err := os.MkdirAll(l.Logs(), 0o700); err != nil {
		return nil, fmt.Errorf("make log folder: %w", err)
	}
	if err := os.WriteFile(l.AuditPolicy(), []byte(auditPolicy), 0o600); err != nil {
		return nil, fmt.Errorf("write audit policy: %w", err)
	}
	f, err := pki.Ensure(l.PKI(), now)
	if err != nil {
		return nil, err
	}
	if err := writeKubeconfig(l, f, s.Ports.APIServer); err != nil {
		return nil, err
	}
	return s, localcluster.SaveState(l, s)
}

// claim makes the data directory, or makes sure that an existing one is empty
// or ours: down removes what is in it by name.
func claim(l localcluster.Layout) error {
	if err := os.MkdirAll(string(l), 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(string(l), &fs); err != nil {
		return fmt.Errorf("check free disk space: %w", err)
	}
	if free := int64(fs.Bavail) * fs.Bsize; free < minFree {
		return fmt.Errorf("only %d MiB are free in %s and a cluster needs at least %d MiB: make room, or choose another --data-dir", free>>20, l, int64(minFree)>>20)
	}
	entries, err := os.ReadDir(string(l))
	if err != nil {
		return fmt.Errorf("read data directory: %w", err)
	}
	if len(entries) == 0 {
		return nil
	}
	if _, err := os.Stat(l.StateFile()); err != nil {
		return fmt.Errorf("%s holds files and no local cluster (the first is %s): choose an empty or new --data-dir", l, entries[0].Name())
	}
	return nil
}

// choosePorts keeps the ports of an earlier run where they are still free.
func choosePorts(p *localcluster.Ports, r Request) error {
	for _, fixed := range []struct {
		flag   string
		wanted int
		port   *int
	}{{"--api-port", r.APIPort, &p.APIServer}, {"--s3-port", r.S3Port, &p.S3}} {
		if fixed.wanted == 0 {
			continue
		}
		if err := ports.Check(fixed.wanted); err != nil {
			return fmt.Errorf("%s: %w", fixed.flag, err)
		}
		*fixed.port = fixed.wanted
	}
	all := []*int{&p.Etcd, &p.EtcdPeer, &p.APIServer, &p.Node, &p.S3}
	var missing []*int
	for _, port := range all {
		if *port == 0 || ports.Check(*port) != nil {
			missing = append(missing, port)
		}
	}
	free, err := ports.Free(len(missing))
	if err != nil {
		return err
	}
	for i, port := range missing {
		*port = free[i]
	}
	return nil
}

func chooseCredentials(s *localcluster.State) error {
	o := &s.ObjectStore
	o.Endpoint, o.Bucket, o.Region = fmt.Sprintf("127.0.0.1:%d", s.Ports.S3), bucket, region
	for _, key := range []*string{&o.AccessKey, &o.SecretKey} {
		if *key != "" {
			continue
		}
		b := make([]byte, 24)
		if _, err := rand.Read(b); err != nil {
			return fmt.Errorf("make S3 credentials: %w", err)
		}
		*key = base64.RawURLEncoding.EncodeToString(b)
	}
	return nil
}

// writeKubeconfig embeds the credentials, so that the file can be copied.
func writeKubeconfig(l localcluster.Layout, f pki.Files, port int) error {
	read := func(path string, into *[]byte) (err error) {
		*into, err = os.ReadFile(path)
		return err
	}
	cluster := &clientcmdapi.Cluster{Server: fmt.Sprintf("https://127.0.0.1:%d", port)}
	admin := &clientcmdapi.AuthInfo{}
	err := errors.Join(read(f.CA, &cluster.CertificateAuthorityData), read(f.AdminCert, &admin.ClientCertificateData), read(f.AdminKey, &admin.ClientKeyData))
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	const name = "local"
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"admin": admin},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: "admin"}},
		CurrentContext: name,
	}, l.Kubeconfig())
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
