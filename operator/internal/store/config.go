// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Config is how to reach the storage. The field comments name the environment variables, which are
// those of secureCodeBox except S3_REGION and the ones after it.
type Config struct {
	Endpoint  string // S3_ENDPOINT: host or host:port, without a scheme
	Port      string // S3_PORT: appended to the endpoint
	UseSSL    bool   // S3_USE_SSL: only "false" switches TLS off
	Bucket    string // S3_BUCKET
	AuthType  string // S3_AUTH_TYPE: "aws-irsa" or "aws-iam" use the chain of AWS, else static keys
	AccessKey string // MINIO_ROOT_USER, else MINIO_ACCESS_KEY
	SecretKey string // MINIO_ROOT_PASSWORD, else MINIO_SECRET_KEY
	STS       string // S3_AWS_STS_ENDPOINT, else S3_AWS_IRSA_STS_ENDPOINT
	URL       string // S3_URL_TEMPLATE

	Region    string // S3_REGION: the storage is asked if it is empty
	PathStyle string // S3_PATH_STYLE: "true", "false", or empty to choose by endpoint
	CAFile    string // S3_CA_FILE: a certificate to trust, PEM

	// PublicEndpoint is S3_PUBLIC_ENDPOINT: the endpoint at which people reach the storage, if it differs
	// from Endpoint, as https://host or http://host:port. The links in the status of Scans lead there; Jobs
	// use Endpoint.
	PublicEndpoint string

	// Timeout bounds every call. Zero means 30 s.
	Timeout time.Duration
}

// address is the endpoint with its port.
func (c Config) address() string {
	if c.Port == "" {
		return c.Endpoint
	}
	return net.JoinHostPort(c.Endpoint, c.Port)
}

// Validate returns the mistakes, each with the name of its environment variable.
func (c Config) Validate() field.ErrorList {
	var errs field.ErrorList
	if c.Endpoint == "" {
		errs = append(errs, field.Required(field.NewPath("S3_ENDPOINT"), "the host of the object storage, such as s3.eu-central-1.amazonaws.com"))
	}
	if c.Bucket == "" {
		errs = append(errs, field.Required(field.NewPath("S3_BUCKET"), "the bucket that holds the results of scans"))
	}
	if c.Port != "" {
		if n, err := strconv.ParseUint(c.Port, 10, 16); err != nil || n == 0 {
			errs = append(errs, field.Invalid(field.NewPath("S3_PORT"), c.Port, "must be a port number, or empty"))
		}
	}
	switch c.PathStyle {
	case "", "true", "false":
	default:
		errs = append(errs, field.NotSupported(field.NewPath("S3_PATH_STYLE"), c.PathStyle, []string{"true", "false"}))
	}
	if c.PublicEndpoint != "" {
		if _, err := parsePublic(c.PublicEndpoint); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("S3_PUBLIC_ENDPOINT"), c.PublicEndpoint, err.Error()))
		}
	}
	if _, err := NewLayout(c.urlTemplate()); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("S3_URL_TEMPLATE"), c.URL, err.Error()))
	}
	return errs
}

func (c Config) urlTemplate() string {
	if c.URL == "" {
		return DefaultURLTemplate
	}
	return c.URL
}

// usesIAM reports whether credentials come from the chain of AWS.
func (c Config) usesIAM() bool { return c.AuthType == "aws-irsa" || c.AuthType == "aws-iam" }
