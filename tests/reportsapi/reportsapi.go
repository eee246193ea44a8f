// SPDX-License-Identifier: Apache-2.0

// Package reportsapi runs the reports API server as a process beside a local cluster, and has kube-apiserver send requests to it.
package reportsapi

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/tests/database"
)

// GoMemory is the GOMEMLIMIT that charts/reports sets by default, nine tenths of its limit. The program gives Go two thirds of it, 307 MiB.
const GoMemory = "460MiB"

// Options say where the server runs. All but Database are required.
type Options struct {
	// Binary is the built reports-apiserver.
	Binary string
	// Dir gets its files, and the database reports.db where it is SQLite.
	Dir string
	// Kubeconfig is that of the cluster's admin, and Client is the same.
	Kubeconfig string
	Client     client.Client
	// Namespace gets its Service. It must be there.
	Namespace string
	// Database is a PostgreSQL; nil for SQLite.
	Database *database.Server
}

// Server is a running reports API server.
type Server struct{ Process *exec.Cmd }

// File is one of the server's files.
func (o *Options) File(name string) string { return filepath.Join(o.Dir, name) }

// DSN writes what the client of the PostgreSQL database knows it by, and returns the data source name.
func (o *Options) DSN() (string, error) {
	files := map[string][]byte{}
	for name, content := range o.Database.TLS {
		files["db-"+name] = content
	}
	return fmt.Sprintf("%s?sslmode=verify-full&sslrootcert=%s&sslcert=%s&sslkey=%s",
		o.Database.DSN, o.File("db-ca.crt"), o.File("db-tls.crt"), o.File("db-tls.key")), o.write(files)
}

func (o *Options) write(files map[string][]byte) error {
	for name, content := range files {
		if err := os.WriteFile(o.File(name), content, 0o600); err != nil {
			return fmt.Errorf("write files of the reports API server: %w", err)
		}
	}
	return nil
}

// Start starts the server. It answers for its groups once Served returns.
func Start(ctx context.Context, o Options) (*Server, error) {
	const service = "reports"
	certificate, key, err := cert.GenerateSelfSignedCertKey(service+"."+o.Namespace+".svc", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	address, err := machineAddress()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"tls.crt": certificate, "tls.key": key}
	args := []string{
		"--bind", net.JoinHostPort(address, "0"), "--kubeconfig", o.Kubeconfig, "--authentication-kubeconfig", o.Kubeconfig,
		"--authorization-kubeconfig", o.Kubeconfig, "--tls-cert", o.File("tls.crt"), "--tls-key", o.File("tls.key"),
	}
	if o.Database == nil {
		args = append(args, "--sqlite", o.File("reports.db"))
	} else {
		dsn, err := o.DSN()
		if err != nil {
			return nil, err
		}
		files["dsn"] = []byte(dsn)
		args = append(args, "--database", "postgresql", "--dsn-file", o.File("dsn"))
	}
	if err := o.write(files); err != nil {
		return nil, err
	}
	s := &Server{}
	port, err := s.launch(ctx, &o, args)
	if err == nil {
		meta := metav1.ObjectMeta{Namespace: o.Namespace, Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}}
		err = route(ctx, o.Client, meta, address, port, certificate)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Stop ends the server.
func (s *Server) Stop() {
	if s == nil || s.Process == nil || s.Process.Process == nil {
		return
	}
	_ = s.Process.Process.Kill() // it may have ended
	_ = s.Process.Wait()
}

// Served waits until PolicyReports and questions are served.
func Served(ctx context.Context, c client.Client) error {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("wgpolicyk8s.io/v1alpha2")
	list.SetKind("PolicyReportList")
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		last = c.List(ctx, list, client.Limit(1))
		return last == nil, nil
	})
	return errors.Join(err, last)
}

// machineAddress is one that EndpointSlices take: not loopback.
func machineAddress() (string, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("find the machine's address: %w", err)
	}
	for _, address := range addresses {
		if ip, ok := address.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String(), nil
		}
	}
	return "", errors.New("the machine has no address but loopback")
}

// launch runs the program and returns its port once it is ready.
func (s *Server) launch(ctx context.Context, o *Options, args []string) (int32, error) {
	cmd := exec.CommandContext(ctx, o.Binary, args...)
	cmd.Env = append(os.Environ(), "GOMEMLIMIT="+GoMemory)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(o.File("server.log"))
	if err != nil {
		return 0, fmt.Errorf("make the server's log: %w", err)
	}
	defer log.Close() // the process has its own
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, fmt.Errorf("start the reports API server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the reports API server: %w", err)
	}
	s.Process = cmd
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		said, readErr := os.ReadFile(log.Name())
		return 0, errors.Join(fmt.Errorf("the server does not start: %w: %s", err, said), readErr)
	}
	var said struct{ URL string }
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		return 0, fmt.Errorf("read what the server says: %w", err)
	}
	parsed, err := url.Parse(said.URL)
	if err != nil {
		return 0, fmt.Errorf("read what the server says: %w", err)
	}
	port, err := strconv.ParseInt(parsed.Port(), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("read what the server says: %w", err)
	}
	return int32(port), nil
}

// route makes the Service of the server, and has it take the groups.
func route(ctx context.Context, c client.Client, meta metav1.ObjectMeta, address string, port int32, bundle []byte) error {
	objects := []client.Object{
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}}},
		&discoveryv1.EndpointSlice{
			ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: &port}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
		},
	}
	for _, gv := range []string{"v1alpha2.wgpolicyk8s.io", "v1alpha1.openreports.io", "v1alpha1.reports.scanyard.io"} {
		version, group, _ := strings.Cut(gv, ".")
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": gv},
			"spec": map[string]any{
				"group": group, "version": version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(10),
				"caBundle": base64.StdEncoding.EncodeToString(bundle), "service": map[string]any{"namespace": meta.Namespace, "name": meta.Name, "port": int64(port)},
			},
		}})
	}
	for _, o := range objects {
		if err := c.Create(ctx, o); err != nil {
			return fmt.Errorf("create %s: %w", o.GetName(), err)
		}
	}
	return nil
}
