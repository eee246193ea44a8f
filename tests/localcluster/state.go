// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/scanyard/scanyard/tests/localcluster/process"
)

// Component names, as accepted by Kill, Restart and the command line.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Node              = "node"
	S3                = "s3"
)

// Components lists every component in the order in which they start.
var Components = []string{Etcd, S3, APIServer, ControllerManager, Node}

// stateVersion changes when an older binary could misread the state file.
const stateVersion = 1

// Ports are the loopback ports of one cluster. They are chosen once and kept
// for the life of the data directory, so that clients survive restarts.
type Ports struct {
	Etcd      int `json:"etcd"`
	EtcdPeer  int `json:"etcdPeer"`
	APIServer int `json:"apiServer"`
	Node      int `json:"node"`
	S3        int `json:"s3"`
}

// ObjectStore says how to reach the cluster's S3 server.
type ObjectStore struct {
	// Endpoint is host:port, as minio-go wants it.
	Endpoint string `json:"endpoint"`
	// Region is the region that requests are signed for.
	Region string `json:"region"`
	// Bucket exists from the moment the cluster is ready.
	Bucket string `json:"bucket"`
	// AccessKey and SecretKey are random per data directory.
	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`
}

// URL is the endpoint with its scheme; the local store speaks plain HTTP.
func (o ObjectStore) URL() string { return "http://" + o.Endpoint }

// State is what a data directory remembers of its cluster: enough for any
// component to start again exactly as before. It holds credentials and is
// readable by its owner only.
type State struct {
	Version int `json:"version"`
	// Supervisor is the process that owns the components, zero when down.
	Supervisor process.Identity `json:"supervisor"`
	// Ready is true once the cluster can take Jobs.
	Ready       bool        `json:"ready"`
	Ports       Ports       `json:"ports"`
	ObjectStore ObjectStore `json:"objectStore"`
	Node        NodeOptions `json:"node"`
	// JobSyncs is the number of Jobs that the controller handles at a time.
	JobSyncs int `json:"jobSyncs"`
	// Audit has the API server write down each request, see Layout.AuditLog.
	Audit bool `json:"audit,omitempty"`
	// AuditWebhook is the kubeconfig of a webhook that is posted the same events; "": none.
	AuditWebhook string `json:"auditWebhook,omitempty"`
	// Authentication is a file with an AuthenticationConfiguration of the API server; "": none.
	Authentication string `json:"authentication,omitempty"`
}

// NodeOptions are the settings of the node agent.
type NodeOptions struct {
	// ImagesMap is a YAML file that lets image names stand for local programs.
	ImagesMap string `json:"imagesMap,omitempty"`
	// Images is a folder with OCI layouts and docker archives.
	Images string `json:"images,omitempty"`
	// SimNodes is the number of simulated nodes, whose pods succeed by themselves.
	SimNodes int `json:"simNodes,omitempty"`
	// SimDelay is how long a simulated pod runs.
	SimDelay Duration `json:"simDelay,omitempty"`
	// PodStartDelay is how long a pod waits on its node before its first container runs: what
	// pulling images and setting up the pod take on other clusters.
	PodStartDelay Duration `json:"podStartDelay,omitempty"`
	// Backoff is the first pause before a restart or another image pull. Zero
	// means the 10 s of a kubelet; it doubles up to 5 minutes.
	Backoff Duration `json:"backoff,omitempty"`
}

// Duration is a time.Duration that reads and writes as "10s".
type Duration time.Duration

// MarshalText writes the form that time.ParseDuration reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads the form that MarshalText writes.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

// Layout names the files of a data directory; the value is the directory.
type Layout string

func (l Layout) at(name string) string { return filepath.Join(string(l), name) }

// StateFile marks a directory as ours: nothing is removed without it.
func (l Layout) StateFile() string { return l.at("cluster.json") }

// Kubeconfig is the admin's kubeconfig with embedded credentials.
func (l Layout) Kubeconfig() string { return l.at("kubeconfig") }

// PKI holds the throw-away certificate authority and what it issued.
func (l Layout) PKI() string { return l.at("pki") }

// Logs holds one file per component.
func (l Layout) Logs() string { return l.at("logs") }

// LogFile is the log of one component, or of the supervisor.
func (l Layout) LogFile(component string) string { return filepath.Join(l.Logs(), component+".log") }

// AuditLog has a line of JSON for each request to the API server, where that was asked for: an
// Event of audit.k8s.io at level Metadata, written when the answer has been given.
func (l Layout) AuditLog() string { return filepath.Join(l.Logs(), "audit.log") }

// AuditPolicy is the API server's file that says what goes there.
func (l Layout) AuditPolicy() string { return filepath.Join(l.Logs(), "audit-policy.yaml") }

// Checkpoint has what the cluster had stored when a checkpoint was made.
func (l Layout) Checkpoint() string { return l.at("checkpoint.json") }

// EtcdData is etcd's data directory.
func (l Layout) EtcdData() string { return l.at("etcd") }

// S3Data holds the objects and their metadata.
func (l Layout) S3Data() string { return l.at("s3") }

// NodeData holds volumes, container layers, logs and unpacked images.
func (l Layout) NodeData() string { return l.at("node") }

// entries is everything that a cluster puts into its data directory.
func (l Layout) entries() []string {
	return []string{l.Kubeconfig(), l.PKI(), l.Logs(), l.EtcdData(), l.S3Data(), l.NodeData(), l.Checkpoint(), l.at(controlSocket), l.StateFile()}
}

// ErrNoCluster says that a directory holds no cluster.
var ErrNoCluster = errors.New("no local cluster here")

// LoadState reads the state of the cluster in a data directory. The error is
// ErrNoCluster if there is none.
func LoadState(l Layout) (*State, error) {
	b, err := os.ReadFile(l.StateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s does not exist", ErrNoCluster, l.StateFile())
	}
	if err != nil {
		return nil, fmt.Errorf("read cluster state: %w", err)
	}
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("read cluster state %s: %w", l.StateFile(), err)
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("cluster state %s has version %d and this program knows %d: use the program that made it, or another data directory",
			l.StateFile(), s.Version, stateVersion)
	}
	return &s, nil
}

// SaveState writes the state in one step, so that a reader never sees half of it.
func SaveState(l Layout, s *State) error {
	s.Version = stateVersion
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode cluster state: %w", err)
	}
	tmp := l.StateFile() + ".new"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write cluster state: %w", err)
	}
	if err := os.Rename(tmp, l.StateFile()); err != nil {
		return fmt.Errorf("write cluster state: %w", err)
	}
	return nil
}

// Remove deletes a stopped cluster's files, and the directory itself if
// nothing else is in it. It refuses a directory that holds no cluster and one
// whose supervisor still runs.
func Remove(l Layout) error {
	s, err := LoadState(l)
	if err != nil {
		return err
	}
	if s.Supervisor.Alive() {
		return fmt.Errorf("remove %s: the cluster still runs (supervisor pid %d)", l, s.Supervisor.PID)
	}
	for _, e := range l.entries() {
		if err := os.RemoveAll(e); err != nil {
			return fmt.Errorf("remove cluster files: %w", err)
		}
	}
	// Someone else's files keep the directory, which is not an error.
	if err := os.Remove(string(l)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		if left, readErr := os.ReadDir(string(l)); readErr == nil && len(left) > 0 {
			return nil
		}
		return fmt.Errorf("remove data directory: %w", err)
	}
	return nil
}
