// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/localcluster/pki"
)

// APIServerArgs are the flags of the cluster's kube-apiserver. RBAC and the
// default admission plugins, PodSecurity among them, are on, so that
// permissions and pod rules are tested for real.
func APIServerArgs(l localcluster.Layout, s *localcluster.State) []string {
	f := pki.In(l.PKI())
	etcd := loopback("http", s.Ports.Etcd)
	args := []string{
		"--etcd-servers=" + etcd.String(),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", s.Ports.APIServer),
		"--advertise-address=127.0.0.1",
		// The "kubernetes" Service would need a reachable address that the
		// loopback is not allowed to be; pods find the server by environment.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + pki.ServiceCIDR,
		"--authorization-mode=Node,RBAC",
		"--client-ca-file=" + f.CA,
		"--tls-cert-file=" + f.ServerCert,
		"--tls-private-key-file=" + f.ServerKey,
		"--cert-dir=" + l.PKI(),
		"--kubelet-client-certificate=" + f.AdminCert,
		"--kubelet-client-key=" + f.AdminKey,
		"--kubelet-certificate-authority=" + f.CA,
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + f.ServiceAccountKey,
		"--service-account-signing-key-file=" + f.ServiceAccountKey,
		// Webhooks that name a Service reach its endpoints directly: there is
		// no proxy for cluster addresses.
		"--enable-aggregator-routing=true",
		// Servers that extend the API learn of these from the ConfigMap extension-apiserver-authentication.
		"--requestheader-client-ca-file=" + f.ProxyCA,
		"--requestheader-allowed-names=" + pki.ProxyName,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + f.ProxyCert,
		"--proxy-client-key-file=" + f.ProxyKey,
		"--allow-privileged=true",
		"--max-requests-inflight=2000",
		"--max-mutating-requests-inflight=1000",
		"--event-ttl=1h",
		"--shutdown-delay-duration=0s",
		"--profiling=true",
	}
	if s.Audit || s.AuditWebhook != "" {
		args = append(args, "--audit-policy-file="+l.AuditPolicy())
	}
	if s.Audit {
		args = append(args, "--audit-log-path="+l.AuditLog())
	}
	if s.AuditWebhook != "" {
		args = append(args, "--audit-webhook-config-file="+s.AuditWebhook, "--audit-webhook-batch-max-wait=1s")
	}
	if s.Authentication != "" {
		args = append(args, "--authentication-config="+s.Authentication)
	}
	return args
}

// RunAPIServer runs kube-apiserver with the given flags.
func RunAPIServer(ctx context.Context, args []string) error {
	s := options.NewServerRunOptions()
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	named := s.Flags()
	for _, f := range named.FlagSets {
		fs.AddFlagSet(f)
	}
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("parse kube-apiserver flags: %w", err)
	}
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("set feature gates: %w", err)
	}
	completed, err := s.Complete(ctx)
	if err != nil {
		return fmt.Errorf("complete kube-apiserver options: %w", err)
	}
	if errs := completed.Validate(); len(errs) != 0 {
		return fmt.Errorf("validate kube-apiserver options: %w", utilerrors.NewAggregate(errs))
	}
	return app.Run(ctx, completed)
}
