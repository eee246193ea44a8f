// SPDX-License-Identifier: Apache-2.0

// Package target makes of a sink in the settings the sink that is opened, and says which Secrets and ConfigMaps the sink needs.
package target

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/forwarding/internal/retry"
	"github.com/scanyard/scanyard/forwarding/sink"
	"github.com/scanyard/scanyard/settings"
)

// Place names a Secret or ConfigMap.
type Place struct{ Namespace, Name string }

// String is NAMESPACE/NAME.
func (p Place) String() string { return p.Namespace + "/" + p.Name }

// References are the Secrets and ConfigMaps of a sink. Those without a name are not asked for.
type References struct {
	// ServerCA is a ConfigMap, with the bundle under CAKey.
	ServerCA Place
	CAKey    string
	// ClientCertificate is a Secret of type kubernetes.io/tls.
	ClientCertificate Place
	// Token is a Secret, with the token under TokenKey. Where Foreign is set it has to list the namespace of the setting.
	Token    Place
	TokenKey string
	Foreign  string
	// Login is a Secret with a user and a password under these keys.
	Login                Place
	UserKey, PasswordKey string
	// Further is a Secret all of whose keys go to the sink, or the one key.
	Further    Place
	FurtherKey string
}

// Target is a sink as it is opened. Config has neither secrets nor a dialer.
type Target struct {
	Config               sink.Config
	References           References
	MaxRecords, MaxBytes int
	Retry                retry.Bounds
	// PerSecond bounds the records; 0: no bound.
	PerSecond int
}

// Of makes the target of a sink. Release is the namespace of the forwarder, where the Secrets of the cluster's sinks are; FileRoot is
// the directory below which sinks may write files. An error says what is wrong and what to do.
func Of(s *settings.EffectiveSink, release, fileRoot string) (Target, error) {
	t := Target{Config: sink.Config{Name: s.ID, Options: map[string]string{}, Timeout: time.Duration(ptr.Deref(s.Sink.TimeoutSeconds, 0)) * time.Second}}
	if b := s.Sink.Batch; b != nil {
		t.MaxRecords, t.MaxBytes = int(ptr.Deref(b.MaxRecords, 0)), int(ptr.Deref(b.MaxBytes, 0))
	}
	if r := s.Sink.Retry; r != nil {
		t.Retry.Initial = time.Duration(ptr.Deref(r.InitialMilliseconds, 0)) * time.Millisecond
		t.Retry.Max = time.Duration(ptr.Deref(r.MaxSeconds, 0)) * time.Second
	}
	t.PerSecond = int(ptr.Deref(s.Sink.MaxRecordsPerSecond, 0))
	if proves := s.Sink.ProvesStorage; proves != nil {
		t.Config.Options["provesStorage"] = strconv.FormatBool(*proves)
	}
	if tls := s.Sink.TLS(); tls != nil {
		t.Config.Insecure, t.Config.ServerName, t.Config.TLS12 = tls.Insecure, tls.ServerName, tls.MinVersion == settingsv1alpha2.TLS12
	}
	endpoints, err := s.Sink.Endpoints()
	if err != nil {
		return t, fmt.Errorf("the endpoint %w", err)
	}
	home := cmp.Or(s.Namespace, release)
	switch {
	case s.Sink.GRPC != nil:
		t.grpc(s.Sink.GRPC, endpoints[0], home)
	case s.Sink.HTTP != nil:
		return t, t.http(s.Sink.HTTP, home)
	case s.Sink.Kafka != nil:
		t.kafka(s.Sink.Kafka, endpoints, home)
	case s.Sink.NATS != nil:
		t.nats(s.Sink.NATS, endpoints[0], home)
	case s.Sink.OTLP != nil:
		t.otlp(s.Sink.OTLP, endpoints[0], home)
	case s.Sink.S3 != nil:
		t.s3(s.Sink.S3, endpoints[0], home)
	case s.Sink.File != nil:
		return t, t.file(s.Sink.File, fileRoot)
	default:
		return t, fmt.Errorf("provider %q has no block that describes it", s.Sink.Provider)
	}
	return t, nil
}

func (t *Target) grpc(g *settingsv1alpha2.GRPCSink, at settingsv1alpha2.Endpoint, home string) {
	scheme := "grpcs"
	if t.Config.Insecure && at.IsPlain(&settingsv1alpha2.TLS{Insecure: true}) {
		scheme = "grpc"
	}
	t.Config.URL = &url.URL{Scheme: scheme, Host: at.Address()}
	t.option("compression", string(g.Compression))
	t.authentication(g.Authentication, home)
}

func (t *Target) http(h *settingsv1alpha2.HTTPSink, home string) error {
	parsed, err := url.Parse(h.URL)
	if err != nil {
		return fmt.Errorf("the URL cannot be read: write it such as https://compliance.example.com:443/results")
	}
	t.Config.URL = parsed
	t.option("format", string(h.Format))
	for name, value := range h.Headers {
		t.Config.Options["header."+name] = value
	}
	a := h.Authentication
	if a == nil {
		return nil
	}
	t.authentication(&a.Authentication, home)
	if a.Basic != nil {
		t.References.Login = Place{home, a.Basic.SecretName}
		t.References.UserKey, t.References.PasswordKey = "username", "password"
	}
	if a.Signing != nil {
		t.References.Further = Place{home, a.Signing.SecretName}
	}
	return nil
}

func (t *Target) kafka(k *settingsv1alpha2.KafkaSink, at []settingsv1alpha2.Endpoint, home string) {
	t.Config.URL = &url.URL{Scheme: "kafka", Host: at[0].Address(), Path: "/" + k.Topic}
	var further []string
	for _, e := range at[1:] {
		further = append(further, e.Address())
	}
	t.option("brokers", strings.Join(further, "+"))
	t.option("format", string(k.Format))
	if a := k.Authentication; a != nil {
		t.trust(&a.ServerTrust, home)
		t.References.ClientCertificate = place(home, a.MTLSClientCert)
	}
	if k.SASL == nil {
		return
	}
	t.option("mechanism", string(k.SASL.Mechanism))
	if k.SASL.Mechanism == settingsv1alpha2.SASLOAuthBearer {
		t.References.Token, t.References.TokenKey = Place{home, k.SASL.SecretName}, defaultTokenKey
		return
	}
	t.References.Login = Place{home, k.SASL.SecretName}
	t.References.UserKey, t.References.PasswordKey = "username", "password"
}

func (t *Target) nats(n *settingsv1alpha2.NATSSink, at settingsv1alpha2.Endpoint, home string) {
	t.Config.URL = &url.URL{Scheme: cmp.Or(at.Scheme, "tls"), Host: at.Address(), Path: "/" + n.Subject}
	if n.Ordered {
		t.option("ordered", "true")
	}
	if a := n.Authentication; a != nil {
		t.authentication(&a.Authentication, home)
		t.References.Further, t.References.FurtherKey = place(home, a.CredentialsSecret), "creds"
	}
}

func (t *Target) otlp(o *settingsv1alpha2.OTLPSink, at settingsv1alpha2.Endpoint, home string) {
	t.Config.URL = &url.URL{Scheme: "otlp", Host: at.Address()}
	if parsed, err := url.Parse(o.Endpoint); err == nil && at.Scheme != "" {
		t.Config.URL.Path = parsed.Path
	}
	t.option("protocol", string(o.Protocol))
	t.Config.Insecure = t.Config.Insecure && at.IsPlain(&settingsv1alpha2.TLS{Insecure: true})
	t.authentication(o.Authentication, home)
}

func (t *Target) s3(s *settingsv1alpha2.S3Sink, at settingsv1alpha2.Endpoint, home string) {
	t.Config.URL = &url.URL{Scheme: "s3", Host: s.Bucket, Path: "/" + s.Prefix}
	t.option("endpoint", cmp.Or(at.Scheme, "https")+"://"+at.Address())
	t.option("region", s.Region)
	if s.PathStyle {
		t.option("pathStyle", "true")
	}
	if s.ObjectLock != nil {
		t.option("objectLock", strconv.Itoa(int(*s.ObjectLock)))
	}
	if s.Authentication != nil {
		t.trust(s.Authentication, home)
	}
	t.References.Login = place(home, s.CredentialsSecret)
	t.References.UserKey, t.References.PasswordKey = "accessKey", "secretKey"
}

func (t *Target) file(f *settingsv1alpha2.FileSink, root string) error {
	if root == "" {
		return fmt.Errorf("the forwarder has no directory for files: start it with --file-root, or use another provider")
	}
	below := path.Join("/", f.Directory) // nothing above the root can be named
	t.Config.URL = &url.URL{Scheme: "file", Path: path.Join(root, below)}
	return nil
}

// option sets what is not empty.
func (t *Target) option(key, value string) {
	if value != "" {
		t.Config.Options[key] = value
	}
}

const (
	defaultCAKey    = "ca.crt"
	defaultTokenKey = "token"
)

func (t *Target) trust(s *settingsv1alpha2.ServerTrust, home string) {
	t.References.ServerCA, t.References.CAKey = place(home, s.ServerCA), cmp.Or(s.ServerCAKey, defaultCAKey)
}

func (t *Target) authentication(a *settingsv1alpha2.Authentication, home string) {
	if a == nil {
		return
	}
	t.trust(&a.ServerTrust, home)
	t.References.ClientCertificate = place(home, a.MTLSClientCert)
	if a.Token == nil {
		return
	}
	t.References.Token = Place{cmp.Or(a.Token.SecretNamespace, home), a.Token.SecretName}
	t.References.TokenKey = cmp.Or(a.Token.Key, defaultTokenKey)
	if t.References.Token.Namespace != home {
		t.References.Foreign = home
	}
}

func place(namespace, name string) Place {
	if name == "" {
		return Place{}
	}
	return Place{namespace, name}
}

// Guard forbids a sink of a namespace the addresses by which a program gets at what is meant for its machine or its cluster alone:
// loopback, link-local, unspecified and multicast ones, and those of the API server. Networks are those that the cluster allows in spite of that.
func Guard(networks, servers []netip.Prefix) sink.DialControl {
	return func(_, address string) error {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return fmt.Errorf("%s is not an address", address)
		}
		ip, err := netip.ParseAddr(host)
		if err != nil {
			return fmt.Errorf("%s is not an address", address)
		}
		ip = ip.Unmap().WithZone("")
		if within(networks, ip) {
			return nil
		}
		var what string
		switch {
		case ip.IsLoopback():
			what = "an address of the forwarder's own machine"
		case ip.IsUnspecified():
			what = "no address of a machine"
		case ip.IsLinkLocalUnicast():
			what = "an address of the link, where metadata services are"
		case ip.IsMulticast():
			what = "a multicast address"
		case within(servers, ip):
			what = "an address of the API server"
		default:
			return nil
		}
		return fmt.Errorf("%s is %s, which sinks of namespaces are not sent to: use another endpoint, "+
			"or ask the cluster admin for a network in allowNamespaces.endpoints", ip, what)
	}
}

func within(networks []netip.Prefix, ip netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(ip) {
			return true
		}
	}
	return false
}
