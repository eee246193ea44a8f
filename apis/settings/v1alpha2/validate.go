// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxForwardingBytes is how large a resultForwarding may be as JSON: it stands twice in the annotation that v1alpha1 has
// for it, with the status of the sinks, and all that stays below 96 KiB.
const MaxForwardingBytes = 36 << 10

// Forwarding is the resultForwarding of either kind.
// +kubebuilder:object:generate=false
type Forwarding interface {
	// All are the sinks: the one called default, if there is one, and then those of sinks.
	All() []NamedClusterSink
	// CommonMetadata is for all sinks.
	CommonMetadata() Metadata
	// Rules say what depends on delivery.
	Rules() Delivery
}

// All are the sinks.
func (f *ResultForwarding) All() []NamedClusterSink {
	if f == nil {
		return nil
	}
	sinks := []NamedClusterSink{}
	if f.Provider != "" {
		sinks = append(sinks, NamedClusterSink{Name: DefaultSink, ClusterSink: ClusterSink{Sink: f.Sink}})
	}
	for i := range f.Sinks {
		sinks = append(sinks, NamedClusterSink{Name: f.Sinks[i].Name, ClusterSink: ClusterSink{Sink: f.Sinks[i].Sink}})
	}
	return sinks
}

// CommonMetadata is for all sinks.
func (f *ResultForwarding) CommonMetadata() Metadata {
	if f == nil {
		return nil
	}
	return f.ExtraMetadata
}

// Rules say what depends on delivery.
func (f *ResultForwarding) Rules() Delivery {
	if f == nil {
		return Delivery{}
	}
	return f.Delivery
}

// All are the sinks.
func (f *ClusterResultForwarding) All() []NamedClusterSink {
	if f == nil {
		return nil
	}
	sinks := []NamedClusterSink{}
	if f.Provider != "" {
		sinks = append(sinks, NamedClusterSink{Name: DefaultSink, ClusterSink: f.ClusterSink})
	}
	return append(sinks, f.Sinks...)
}

// CommonMetadata is for all sinks.
func (f *ClusterResultForwarding) CommonMetadata() Metadata {
	if f == nil {
		return nil
	}
	return f.ExtraMetadata
}

// Rules say what depends on delivery.
func (f *ClusterResultForwarding) Rules() Delivery {
	if f == nil {
		return Delivery{}
	}
	return f.Delivery
}

// TLS is that of the sink's provider; nil where there is none.
func (s *Sink) TLS() *TLS {
	switch {
	case s.Provider == ProviderGRPC && s.GRPC != nil && s.GRPC.TLS != nil:
		return &s.GRPC.TLS.TLS
	case s.Provider == ProviderHTTP && s.HTTP != nil:
		return s.HTTP.TLS
	case s.Provider == ProviderKafka && s.Kafka != nil:
		return s.Kafka.TLS
	case s.Provider == ProviderNATS && s.NATS != nil:
		return s.NATS.TLS
	case s.Provider == ProviderOTLP && s.OTLP != nil:
		return s.OTLP.TLS
	case s.Provider == ProviderS3 && s.S3 != nil:
		return s.S3.TLS
	default:
		return nil
	}
}

// IsInsecure says whether a sink may send in plain text.
func (s *Sink) IsInsecure() bool {
	tls := s.TLS()
	return tls != nil && tls.Insecure
}

// CanProve says whether an acknowledgement of a sink may prove that the far end has stored what it got. Whether it does
// depends, for some providers, on the far end as well.
func (s *Sink) CanProve() bool {
	if s.ProvesStorage != nil {
		return *s.ProvesStorage && s.Provider != ProviderFile && s.Provider != ""
	}
	return slices.Contains([]Provider{ProviderGRPC, ProviderKafka, ProviderNATS, ProviderS3}, s.Provider)
}

// Texts of refusals that the schema says as well. Here they hold for what was not checked by it: the annotation of an
// object of v1alpha1, and files.
const (
	textPlain   = "would send findings in plain text: use https, or set tls.insecure where that is meant"
	textToken   = "would send the %s in plain text: remove %s or tls.insecure"
	textNoProof = "results would be removed without proof that somebody has them: add a sink of provider grpc, kafka, nats or s3, or set " +
		"provesStorage on one that keeps what it acknowledges"
	textCA        = "holds the CA's private key, which no sender may have: put the certificate alone into a ConfigMap and name it in authentication.serverCA"
	textServer    = "is the receiver's private key: it belongs to the receiver only; remove it"
	textClient    = "is called authentication.mtlsClientCert"
	textFileProof = "a file never proves storage: remove provesStorage, or use another provider"
)

// ValidateForwarding finds what of a resultForwarding can never work, or must not. It is what admission and forwarder
// both ask; path is where it stands, such as spec.resultForwarding.
func ValidateForwarding(f Forwarding, path *field.Path) field.ErrorList {
	errs := validateMetadata(f.CommonMetadata(), path.Child("extraMetadata"))
	for i, s := range f.All() {
		at := path
		if s.Name != DefaultSink {
			at = path.Child("sinks").Key(s.Name)
			errs = append(errs, validateMetadata(s.ExtraMetadata, at.Child("extraMetadata"))...)
		} else if i > 0 {
			errs = append(errs, field.Invalid(path.Child("sinks").Index(i).Child("name"), s.Name, "the sink beside sinks is called default: choose another name"))
		}
		errs = append(errs, validateSink(&s.Sink, at)...)
		if _, err := metav1.LabelSelectorAsSelector(s.NamespaceSelector); err != nil {
			errs = append(errs, field.Invalid(at.Child("namespaceSelector"), field.OmitValueType{}, "is not a selector: "+err.Error()))
		}
	}
	if raw, err := json.Marshal(f); err != nil || len(raw) > MaxForwardingBytes {
		errs = append(errs, field.TooLong(path, field.OmitValueType{}, MaxForwardingBytes))
		errs[len(errs)-1].Detail += fmt.Sprintf(" of JSON, and it has %d: shorten extraMetadata and headers, or have fewer sinks", len(raw))
	}
	return errs
}

// NeedsProof finds that results would be removed without proof. Sinks are all that the results go to.
func NeedsProof(mode AfterForwarding, sinks []*Sink, path *field.Path) field.ErrorList {
	if mode == "" || mode == AfterForwardingKeep || slices.ContainsFunc(sinks, (*Sink).CanProve) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("inClusterStorage", "afterForwarding"), mode, textNoProof)}
}

func validateSink(s *Sink, at *field.Path) field.ErrorList {
	if errs := validateBlocks(s, at); len(errs) > 0 {
		return errs
	}
	block := at.Child(string(s.Provider))
	errs := slices.Concat(validateEndpoints(s, block), validateSecrecy(s, block))
	if s.Provider == ProviderFile && s.ProvesStorage != nil && *s.ProvesStorage {
		errs = append(errs, field.Invalid(at.Child("provesStorage"), true, textFileProof))
	}
	switch s.Provider {
	case ProviderGRPC:
		errs = append(errs, validateMetadata(s.GRPC.ExtraMetadata, block.Child("extraMetadata"))...)
		if s.GRPC.TLS != nil {
			errs = append(errs, validateDynamic(s.GRPC.TLS.Dynamic, block.Child("tls", "dynamic"))...)
		}
	case ProviderHTTP:
		errs = append(errs, validateHeaders(s.HTTP.Headers, block.Child("headers"))...)
	case ProviderNATS:
		errs = append(errs, validateSubject(s.NATS.Subject, block.Child("subject"))...)
	case ProviderFile:
		errs = append(errs, validateDirectory(s.File.Directory, block.Child("directory"))...)
	default:
	}
	return errs
}

// validateBlocks says whether exactly the block of the provider is there.
func validateBlocks(s *Sink, at *field.Path) field.ErrorList {
	blocks := []struct {
		of    Provider
		there bool
	}{
		{ProviderGRPC, s.GRPC != nil},
		{ProviderHTTP, s.HTTP != nil},
		{ProviderKafka, s.Kafka != nil},
		{ProviderNATS, s.NATS != nil},
		{ProviderOTLP, s.OTLP != nil},
		{ProviderS3, s.S3 != nil},
		{ProviderFile, s.File != nil},
	}
	var known, others []string
	own := false
	for _, b := range blocks {
		known = append(known, string(b.of))
		switch {
		case b.there && b.of == s.Provider:
			own = true
		case b.there:
			others = append(others, " and remove "+string(b.of))
		}
	}
	if !slices.Contains(known, string(s.Provider)) {
		return field.ErrorList{field.NotSupported(at.Child("provider"), s.Provider, known)}
	}
	if own && len(others) == 0 {
		return nil
	}
	text := fmt.Sprintf("provider is %s: describe it in %s.%s", s.Provider, strings.TrimPrefix(at.String(), "spec."), s.Provider) + strings.Join(others, "")
	return field.ErrorList{field.Invalid(at.Child("provider"), s.Provider, text)}
}

func validateEndpoints(s *Sink, block *field.Path) field.ErrorList {
	texts, rule := s.endpointTexts()
	name := map[Provider]string{ProviderHTTP: "url", ProviderNATS: "url", ProviderKafka: "brokers"}[s.Provider]
	if name == "" {
		name = "endpoint"
	}
	var errs field.ErrorList
	for i, text := range texts {
		at := block.Child(name)
		if s.Provider == ProviderKafka {
			at = at.Index(i)
		}
		e, err := parseEndpoint(text, rule)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(at, withoutUserInfo(text), err.Error()))
		case e.IsPlain(s.TLS()) && !s.IsInsecure():
			errs = append(errs, field.Invalid(at, withoutUserInfo(text), textPlain))
		}
	}
	return errs
}

// validateSecrecy keeps tokens and passwords from going over the wire in plain text.
func validateSecrecy(s *Sink, block *field.Path) field.ErrorList {
	if !s.IsInsecure() {
		return nil
	}
	var errs field.ErrorList
	refuse := func(there bool, secret, what string, at ...string) {
		if there {
			errs = append(errs, field.Invalid(block.Child(at[0], at[1:]...), field.OmitValueType{}, fmt.Sprintf(textToken, secret, what)))
		}
	}
	switch s.Provider {
	case ProviderGRPC:
		refuse(s.GRPC.Authentication != nil && s.GRPC.Authentication.Token != nil, "token", "token", "authentication", "token")
	case ProviderHTTP:
		refuse(s.HTTP.Authentication != nil && s.HTTP.Authentication.Token != nil, "token", "token", "authentication", "token")
		refuse(s.HTTP.Authentication != nil && s.HTTP.Authentication.Basic != nil, "password", "basic", "authentication", "basic")
	case ProviderNATS:
		refuse(s.NATS.Authentication != nil && s.NATS.Authentication.Token != nil, "token", "token", "authentication", "token")
	case ProviderOTLP:
		refuse(s.OTLP.Authentication != nil && s.OTLP.Authentication.Token != nil, "token", "token", "authentication", "token")
	case ProviderKafka:
		refuse(s.Kafka.SASL != nil && (s.Kafka.SASL.Mechanism == SASLPlain || s.Kafka.SASL.Mechanism == SASLOAuthBearer), "password", "sasl", "sasl", "mechanism")
	default:
	}
	return errs
}

func validateDynamic(d *DynamicTLS, at *field.Path) field.ErrorList {
	if d == nil {
		return nil
	}
	var errs field.ErrorList
	for _, f := range []struct {
		value      *string
		name, text string
	}{
		{d.CASecretName, "caSecretName", textCA},
		{d.ServerSecretName, "serverSecretName", textServer},
		{d.ClientSecretName, "clientSecretName", textClient},
	} {
		if f.value != nil {
			errs = append(errs, field.Invalid(at.Child(f.name), *f.value, f.text))
		}
	}
	return errs
}

var metadataKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,62}$`)

const maxMetadataBytes = 1024

func validateMetadata(m Metadata, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, k := range sortedKeys(m) {
		switch {
		case !metadataKey.MatchString(k):
			errs = append(errs, field.Invalid(at.Key(k), k, "is not a key: begin it with a letter, and use up to 63 letters, digits and \"_.-\""))
		case strings.HasPrefix(k, "scanyard"):
			errs = append(errs, field.Invalid(at.Key(k), k, "keys that begin with scanyard are Scanyard's own: choose another key"))
		}
		if len(m[k]) > maxMetadataBytes {
			errs = append(errs, field.TooLong(at.Key(k), field.OmitValueType{}, maxMetadataBytes))
		}
	}
	return errs
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// ownHeaders say who asks, or concern one connection only.
var ownHeaders = []string{
	"authorization", "connection", "content-length", "cookie", "host", "keep-alive", "proxy-authenticate", "proxy-authorization",
	"proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$")

func validateHeaders(headers map[string]string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, k := range sortedKeys(headers) {
		switch {
		case !headerName.MatchString(k):
			errs = append(errs, field.Invalid(at.Key(k), k, "is not the name of a header"))
		case slices.Contains(ownHeaders, strings.ToLower(k)):
			errs = append(errs, field.Invalid(at.Key(k), k, "says who asks, or concerns one connection only: remove it and use authentication"))
		case strings.ContainsFunc(headers[k], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			errs = append(errs, field.Invalid(at.Key(k), field.OmitValueType{}, "has a control character: remove it"))
		}
	}
	return errs
}

var subject = regexp.MustCompile(`^[^\s*>{}.]+(\.[^\s*>{}.]+)*$`)

func validateSubject(text string, at *field.Path) field.ErrorList {
	if subject.MatchString(strings.NewReplacer("{cluster}", "c", "{tenant}", "t", "{kind}", "k").Replace(text)) {
		return nil
	}
	return field.ErrorList{
		field.Invalid(at, text, "is not a subject: write words with dots between, such as scanyard.{cluster}.{tenant}.{kind}, which are all that is filled in"),
	}
}

func validateDirectory(text string, at *field.Path) field.ErrorList {
	if !slices.Contains(strings.Split(text, "/"), "..") && !strings.ContainsRune(text, 0) && path.Clean("/"+text) != "/" {
		return nil
	}
	return field.ErrorList{field.Invalid(at, text, "is not a directory below --file-root of the forwarder: write it such as results/security")}
}
