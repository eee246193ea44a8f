// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
)

// Namespace is where the operator is installed.
const Namespace = "scanyard-system"

// keysSecret holds the keys of the object storage, as a user would make it.
const keysSecret = "object-storage"

// Operator is an operator installed by its chart. Pods of the local cluster share
// the machine's network, so it listens on loopback ports of its own.
type Operator struct {
	// Metrics, Health and Upload are its addresses, host:port.
	Metrics, Health, Upload string

	client kubernetes.Interface
}

// OperatorOptions say how an operator is installed.
type OperatorOptions struct {
	// Store is the cluster's object storage, perhaps with a proxy as its endpoint.
	Store localcluster.ObjectStore
	// Values are laid over those that the local cluster needs; a key at the top
	// replaces the whole value.
	Values map[string]any
	// Args are further flags of the operator.
	Args []string
	// Timeout bounds the wait until it is ready; 0 means a minute.
	Timeout time.Duration
}

// InstallOperator installs the chart scanyard and waits until the operator is ready.
func (h *Helm) InstallOperator(ctx context.Context, cfg *rest.Config, o OperatorOptions) (*Operator, error) {
	free, err := ports.Free(4)
	if err != nil {
		return nil, fmt.Errorf("install the operator: %w", err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("install the operator: %w", err)
	}
	op := &Operator{Metrics: loopback(free[0]), Health: loopback(free[1]), Upload: loopback(free[2]), client: client}
	if err := op.writeKeys(ctx, o.Store); err != nil {
		return nil, fmt.Errorf("install the operator: %w", err)
	}
	values, err := op.values(o, free[1], free[3])
	if err != nil {
		return nil, err
	}
	if err := h.Install(ctx, Release{Chart: "scanyard", Namespace: Namespace, Values: values}); err != nil {
		return nil, err
	}
	return op, nil
}

// Connect is the operator that another process has installed, by its addresses.
func (op Operator) Connect(cfg *rest.Config) (*Operator, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the operator: %w", err)
	}
	op.client = client
	return &op, nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// writeKeys makes the Secret that the values name.
func (op *Operator) writeKeys(ctx context.Context, s localcluster.ObjectStore) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if _, err := op.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace: %w", err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: keysSecret},
		StringData: map[string]string{"accesskey": s.AccessKey, "secretkey": s.SecretKey},
	}
	if _, err := op.client.CoreV1().Secrets(Namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Secret %s: %w", keysSecret, err)
	}
	return nil
}

// values are those that anybody with an object storage of their own sets, and the
// addresses, which have to differ from the defaults where pods share a network.
func (op *Operator) values(o OperatorOptions, health, webhook int) (map[string]any, error) {
	host, port, err := net.SplitHostPort(o.Store.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("install the operator: %w", err)
	}
	probe := func(path string) map[string]any {
		get := map[string]any{"path": path, "port": health, "host": "127.0.0.1"}
		return map[string]any{"httpGet": get, "initialDelaySeconds": 0, "periodSeconds": 1}
	}
	liveness := probe("/healthz")
	liveness["periodSeconds"], liveness["failureThreshold"] = 10, 6
	values := map[string]any{
		"minio": map[string]any{"enabled": false},
		"s3": map[string]any{
			"enabled": true, "tls": map[string]any{"enabled": false}, "endpoint": host, "port": port, "bucket": o.Store.Bucket,
			"region": o.Store.Region, "pathStyle": true, "keySecret": keysSecret,
		},
		// The API server goes through a Service, which loopback addresses cannot stand behind.
		"webhook":        map[string]any{"port": webhook},
		"uploadEndpoint": map[string]any{"url": "https://" + op.Upload},
		"probes":         map[string]any{"liveness": liveness, "readiness": probe("/readyz")},
		"extraArgs": append([]string{
			"--metrics-bind-address=" + op.Metrics, "--health-probe-bind-address=" + op.Health, "--upload-endpoint-bind-address=" + op.Upload,
		}, o.Args...),
	}
	maps.Copy(values, o.Values)
	return values, nil
}

// Ready waits until the operator says that it is: storage reached, caches filled.
// The error says what it logged last.
func (op *Operator) Ready(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client := &http.Client{Timeout: time.Second}
	var said string
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+op.Health+"/readyz?verbose", http.NoBody)
		if err != nil {
			return false, err
		}
		resp, err := client.Do(req)
		if err != nil {
			said = err.Error()
			return false, nil // it does not listen yet
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
		said = string(b)
		return err == nil && resp.StatusCode == http.StatusOK, nil
	})
	if err == nil {
		return nil
	}
	// The wait's own context has just run out.
	logs, logErr := op.Logs(context.WithoutCancel(ctx))
	return fmt.Errorf("the operator is not ready: %w; it says %q and logged:\n%s", errors.Join(err, logErr), said, tail(logs, 2000))
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// Pods lists the pods of the operator.
func (op *Operator) Pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := op.client.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{LabelSelector: "control-plane=securecodebox-controller-manager"})
	if err != nil {
		return nil, fmt.Errorf("list the operator's pods: %w", err)
	}
	return list.Items, nil
}

// Logs returns what the operator's pods have logged, also before their last restart.
func (op *Operator) Logs(ctx context.Context) (string, error) {
	pods, err := op.Pods(ctx)
	if err != nil {
		return "", err
	}
	var out string
	for i := range pods {
		for _, previous := range []bool{true, false} {
			if previous && !restarted(&pods[i]) {
				continue
			}
			b, err := op.client.CoreV1().Pods(Namespace).GetLogs(pods[i].Name, &corev1.PodLogOptions{Previous: previous}).DoRaw(ctx)
			if err != nil {
				return out, fmt.Errorf("read the operator's log: %w", err)
			}
			out += string(b)
		}
	}
	return out, nil
}

func restarted(p *corev1.Pod) bool {
	for _, c := range p.Status.ContainerStatuses {
		if c.RestartCount > 0 {
			return true
		}
	}
	return false
}
