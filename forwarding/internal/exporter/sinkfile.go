// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/forwarding/internal/sinkurl"
)

// sinkOfFile is a sink as the file says it: as in resultForwarding of a ScanSetting, with files instead of Secrets.
type sinkOfFile struct {
	Name           string     `json:"name"`
	Provider       string     `json:"provider"`
	Batch          batchOf    `json:"batch"`
	TimeoutSeconds text       `json:"timeoutSeconds"`
	Retry          retryOf    `json:"retry"`
	GRPC           *grpcBlock `json:"grpc"`
	HTTP           *httpBlock `json:"http"`
	Kafka          *kafkaOf   `json:"kafka"`
	NATS           *natsBlock `json:"nats"`
	OTLP           *otlpBlock `json:"otlp"`
	S3             *s3Block   `json:"s3"`
	File           *fileBlock `json:"file"`
}

type batchOf struct {
	MaxRecords text `json:"maxRecords"`
	MaxBytes   text `json:"maxBytes"`
}

type retryOf struct {
	InitialMilliseconds text `json:"initialMilliseconds"`
	MaxSeconds          text `json:"maxSeconds"`
}

type tlsBlock struct {
	Insecure   bool   `json:"insecure"`
	ServerName string `json:"serverName"`
	MinVersion string `json:"minVersion"`
}

type authBlock struct {
	ServerCAFile   string `json:"serverCAFile"`
	ClientCertFile string `json:"clientCertFile"`
	ClientKeyFile  string `json:"clientKeyFile"`
	TokenFile      string `json:"tokenFile"`
	UsernameFile   string `json:"usernameFile"`
	PasswordFile   string `json:"passwordFile"`
	SigningFile    string `json:"signingFile"`
	CredentialFile string `json:"credentialsFile"`
}

// common is what all sinks with a connection have.
type common struct {
	TLS            tlsBlock  `json:"tls"`
	Authentication authBlock `json:"authentication"`
}

type grpcBlock struct {
	common

	Endpoint    string `json:"endpoint"`
	Version     string `json:"version"`
	Compression string `json:"compression"`
}

type httpBlock struct {
	common

	URL     string            `json:"url"`
	Format  string            `json:"format"`
	Headers map[string]string `json:"headers"`
}

type kafkaOf struct {
	common

	Brokers []string `json:"brokers"`
	Topic   string   `json:"topic"`
	Format  string   `json:"format"`
	SASL    struct {
		Mechanism string `json:"mechanism"`
	} `json:"sasl"`
}

type natsBlock struct {
	common

	URL     string `json:"url"`
	Subject string `json:"subject"`
	Ordered bool   `json:"ordered"`
}

type otlpBlock struct {
	common

	Endpoint string `json:"endpoint"`
	Protocol string `json:"protocol"`
}

type s3Block struct {
	common

	Endpoint   string `json:"endpoint"`
	Bucket     string `json:"bucket"`
	Prefix     string `json:"prefix"`
	Region     string `json:"region"`
	PathStyle  bool   `json:"pathStyle"`
	ObjectLock text   `json:"objectLock"`
}

type fileBlock struct {
	Directory string `json:"directory"`
}

// keys are the keys of a sink as a command line has them.
type keys map[string]string

func (k keys) put(key, value string) {
	if value != "" {
		k[key] = value
	}
}

func (k keys) flag(key string, value bool) {
	if value {
		k[key] = "true"
	}
}

// common adds what all have, and tells whether plain text is meant.
func (k keys) common(c common) error {
	k.flag("insecure", c.TLS.Insecure)
	k.put("serverName", c.TLS.ServerName)
	switch c.TLS.MinVersion {
	case "", "TLS13":
	case "TLS12":
		k.flag("tls12", true)
	default:
		return fmt.Errorf("tls.minVersion: %q is not known: use TLS12 or TLS13", c.TLS.MinVersion)
	}
	a := c.Authentication
	for key, file := range map[string]string{
		"ca": a.ServerCAFile, "cert": a.ClientCertFile, "key": a.ClientKeyFile, "tokenFile": a.TokenFile, "usernameFile": a.UsernameFile,
		"passwordFile": a.PasswordFile, "signingFile": a.SigningFile, "credentialsFile": a.CredentialFile,
	} {
		k.put(key, file)
	}
	return nil
}

// target gives the sink as the rest of the program knows it.
func (s *sinkOfFile) target() (sinkurl.Sink, error) {
	if !sinkurl.IsName(s.Name) {
		return sinkurl.Sink{}, errors.New("name must be at most 40 lower-case letters, digits and dashes")
	}
	if err := s.checkProvider(); err != nil {
		return sinkurl.Sink{}, err
	}
	k := keys{}
	k.put("maxRecords", string(s.Batch.MaxRecords))
	k.put("maxBytes", string(s.Batch.MaxBytes))
	for _, wait := range []struct {
		key  string
		said text
		unit string
	}{{"timeout", s.TimeoutSeconds, "s"}, {"retryInitial", s.Retry.InitialMilliseconds, "ms"}, {"retryMax", s.Retry.MaxSeconds, "s"}} {
		if wait.said != "" {
			k.put(wait.key, string(wait.said)+wait.unit)
		}
	}
	address, err := s.address(k)
	if err != nil {
		return sinkurl.Sink{}, err
	}
	return sinkurl.New(s.Name, address, k)
}

// checkProvider asks for the block of the provider, and for no other.
func (s *sinkOfFile) checkProvider() error {
	blocks := map[string]bool{
		"grpc": s.GRPC != nil, "http": s.HTTP != nil, "kafka": s.Kafka != nil, "nats": s.NATS != nil, "otlp": s.OTLP != nil, "s3": s.S3 != nil, "file": s.File != nil,
	}
	known := []string{"grpc", "http", "kafka", "nats", "otlp", "s3", "file"}
	if !slices.Contains(known, s.Provider) {
		return fmt.Errorf("provider: %q is not known: use one of %s", s.Provider, strings.Join(known, ", "))
	}
	for _, name := range known {
		if name == s.Provider && !blocks[name] {
			return fmt.Errorf("provider is %s: describe it in %s", name, name)
		}
		if name != s.Provider && blocks[name] {
			return fmt.Errorf("provider is %s: remove %s", s.Provider, name)
		}
	}
	return nil
}

// address adds the keys of the provider, and gives the URL.
func (s *sinkOfFile) address(k keys) (string, error) {
	switch s.Provider {
	case "grpc":
		if s.GRPC.Version != "" && s.GRPC.Version != "v1" {
			return "", fmt.Errorf("grpc.version: %q is not known: use v1", s.GRPC.Version)
		}
		k.put("compression", s.GRPC.Compression)
		return grpcAddress(s.GRPC.Endpoint), k.common(s.GRPC.common)
	case "http":
		k.put("format", s.HTTP.Format)
		for name, value := range s.HTTP.Headers {
			k.put(sinkurl.HeaderPrefix+name, value)
		}
		return s.HTTP.URL, k.common(s.HTTP.common)
	case "kafka":
		if len(s.Kafka.Brokers) == 0 {
			return "", errors.New("kafka.brokers is required")
		}
		k.put("brokers", strings.Join(s.Kafka.Brokers, "+"))
		k.put("format", s.Kafka.Format)
		k.put("mechanism", s.Kafka.SASL.Mechanism)
		return "kafka://" + s.Kafka.Brokers[0] + "/" + url.PathEscape(s.Kafka.Topic), k.common(s.Kafka.common)
	case "nats":
		k.flag("ordered", s.NATS.Ordered)
		return strings.TrimSuffix(s.NATS.URL, "/") + "/" + url.PathEscape(s.NATS.Subject), k.common(s.NATS.common)
	case "otlp":
		k.put("protocol", s.OTLP.Protocol)
		_, host, found := strings.Cut(s.OTLP.Endpoint, "://")
		if !found {
			host = s.OTLP.Endpoint
		}
		return "otlp://" + host, k.common(s.OTLP.common)
	case "s3":
		k.put("endpoint", s.S3.Endpoint)
		k.put("region", s.S3.Region)
		k.flag("pathStyle", s.S3.PathStyle)
		k.put("objectLock", string(s.S3.ObjectLock))
		return (&url.URL{Scheme: "s3", Host: s.S3.Bucket, Path: "/" + s.S3.Prefix}).String(), k.common(s.S3.common)
	}
	return (&url.URL{Scheme: "file", Path: s.File.Directory}).String(), nil
}

// grpcAddress gives an endpoint the scheme of its sink: HOST:PORT and https are TLS.
func grpcAddress(endpoint string) string {
	scheme, host, found := strings.Cut(endpoint, "://")
	switch {
	case !found:
		return "grpcs://" + endpoint
	case scheme == "https":
		return "grpcs://" + host
	case scheme == "http":
		return "grpc://" + host
	}
	return endpoint
}
