// SPDX-License-Identifier: Apache-2.0

// Package bucket keeps files in a bucket of object storage that speaks S3, and has them back as they were.
//
//	file ─► Put ─► prefix/name, with the SHA-256 of the file ─► Get ─► the same file, or an error
//
// What it decides:
//
//   - The storage is reached by the variables that the operator reads, so that one Secret and one set of values fit both.
//   - A file has its checksum beside it. What comes back with another one is refused.
//   - What lies below the prefix and has another name than the caller asks about is left alone.
package bucket

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// checksum is the metadata of an object that has the SHA-256 of its file, in hexadecimal digits.
const checksum = "Sha256"

// ErrMissing is returned for a file that is not in the bucket.
var ErrMissing = errors.New("there is no such file in the bucket")

// Config is how to reach the bucket. The comments name the variables of the environment, which are the operator's.
type Config struct {
	Endpoint  string // S3_ENDPOINT: host or host:port, without a scheme
	Port      string // S3_PORT: appended to the endpoint
	Insecure  bool   // S3_USE_SSL: only "false" switches TLS off
	Bucket    string // S3_BUCKET
	Region    string // S3_REGION: the storage is asked if it is empty
	PathStyle string // S3_PATH_STYLE: "true", "false", or empty to choose by endpoint
	CAFile    string // S3_CA_FILE: certificates to trust, PEM
	AuthType  string // S3_AUTH_TYPE: "aws-iam" or "aws-irsa" use the chain of AWS, else static keys
	STS       string // S3_AWS_STS_ENDPOINT, else S3_AWS_IRSA_STS_ENDPOINT
	AccessKey string // MINIO_ROOT_USER, else MINIO_ACCESS_KEY
	SecretKey string // MINIO_ROOT_PASSWORD, else MINIO_SECRET_KEY
	// Prefix is what the names of all objects begin with.
	Prefix string
}

// FromEnvironment reads how to reach the bucket.
func FromEnvironment(getenv func(string) string, prefix string) Config {
	first := func(names ...string) string {
		for _, name := range names {
			if value := getenv(name); value != "" {
				return value
			}
		}
		return ""
	}
	return Config{
		Endpoint: getenv("S3_ENDPOINT"), Port: getenv("S3_PORT"), Insecure: getenv("S3_USE_SSL") == "false", Bucket: getenv("S3_BUCKET"),
		Region: getenv("S3_REGION"), PathStyle: getenv("S3_PATH_STYLE"), CAFile: getenv("S3_CA_FILE"),
		AuthType: strings.ToLower(getenv("S3_AUTH_TYPE")), STS: first("S3_AWS_STS_ENDPOINT", "S3_AWS_IRSA_STS_ENDPOINT"),
		AccessKey: first("MINIO_ROOT_USER", "MINIO_ACCESS_KEY"), SecretKey: first("MINIO_ROOT_PASSWORD", "MINIO_SECRET_KEY"), Prefix: prefix,
	}
}

func (c *Config) validate() error {
	var errs []error
	for _, needed := range []struct{ name, value string }{{"S3_ENDPOINT", c.Endpoint}, {"S3_BUCKET", c.Bucket}} {
		if needed.value == "" {
			errs = append(errs, fmt.Errorf("%s must be set", needed.name))
		}
	}
	if !slices.Contains([]string{"", "true", "false"}, c.PathStyle) {
		errs = append(errs, fmt.Errorf("S3_PATH_STYLE must be true, false or empty, is %q", c.PathStyle))
	}
	return errors.Join(errs...)
}

func (c *Config) options() (*minio.Options, error) {
	transport, err := minio.DefaultTransport(!c.Insecure)
	if err != nil {
		return nil, err
	}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("S3_CA_FILE: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, err
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("S3_CA_FILE %s has no certificate in PEM", c.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	options := &minio.Options{
		Creds: credentials.NewStaticV4(c.AccessKey, c.SecretKey, ""), Secure: !c.Insecure, Region: c.Region, Transport: transport, MaxRetries: 3,
	}
	if c.AuthType == "aws-iam" || c.AuthType == "aws-irsa" {
		options.Creds = credentials.NewIAM(c.STS)
	}
	switch c.PathStyle {
	case "true":
		options.BucketLookup = minio.BucketLookupPath
	case "false":
		options.BucketLookup = minio.BucketLookupDNS
	}
	return options, nil
}

// Bucket is a bucket, or what is below a prefix of it.
type Bucket struct {
	client       *minio.Client
	name, prefix string
}

// Open makes a Bucket. It calls nobody.
func Open(c Config) (*Bucket, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("which bucket? %w", err)
	}
	options, err := c.options()
	if err != nil {
		return nil, err
	}
	address := c.Endpoint
	if c.Port != "" {
		address = net.JoinHostPort(c.Endpoint, c.Port)
	}
	client, err := minio.New(address, options)
	if err != nil {
		return nil, fmt.Errorf("S3_ENDPOINT %q: %w", address, err)
	}
	return &Bucket{client: client, name: c.Bucket, prefix: c.Prefix}, nil
}

// Place is where a file is, for people.
func (b *Bucket) Place(name string) string { return "s3://" + b.name + "/" + b.prefix + name }

// Put writes a file into the bucket, under a name.
func (b *Bucket) Put(ctx context.Context, name, file string) error {
	sum, size, err := sumOf(file)
	if err != nil {
		return err
	}
	put, err := b.client.FPutObject(ctx, b.name, b.prefix+name, file, minio.PutObjectOptions{
		ContentType: "application/vnd.sqlite3", UserMetadata: map[string]string{checksum: sum},
	})
	if err == nil && put.Size != size {
		err = fmt.Errorf("%d bytes were written of %d", put.Size, size)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", b.Place(name), err)
	}
	return nil
}

func sumOf(file string) (sum string, size int64, err error) {
	from, err := os.Open(file)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = from.Close() }() // was only read
	hash := sha256.New()
	size, err = io.Copy(hash, from)
	return hex.EncodeToString(hash.Sum(nil)), size, err
}

// Get writes what the bucket has under a name into a new file. Where it fails, there is no such file.
func (b *Bucket) Get(ctx context.Context, name, file string) error {
	object, err := b.client.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return fmt.Errorf("read %s: %w", b.Place(name), err)
	}
	defer func() { _ = object.Close() }() // was only read
	info, err := object.Stat()
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok && response.Code == minio.NoSuchKey {
		err = ErrMissing
	}
	if err == nil {
		err = save(object, file, info.UserMetadata[checksum])
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", b.Place(name), err)
	}
	return nil
}

func save(from io.Reader, file, want string) (err error) {
	into, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, into.Close()); err != nil {
			err = errors.Join(err, os.Remove(file))
		}
	}()
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(into, hash), from); err != nil {
		return err
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); sum != want {
		return fmt.Errorf("it is not as it was written: its SHA-256 is %s, must be %q", sum, want)
	}
	return nil
}

// Names returns the names in the bucket, in their order.
func (b *Bucket) Names(ctx context.Context) ([]string, error) {
	var names []string
	for object := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix}) {
		if object.Err != nil {
			return nil, fmt.Errorf("list %s: %w", b.Place(""), object.Err)
		}
		names = append(names, strings.TrimPrefix(object.Key, b.prefix))
	}
	slices.Sort(names)
	return names, nil
}

// Remove deletes what the bucket has under a name.
func (b *Bucket) Remove(ctx context.Context, name string) error {
	if err := b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}); err != nil {
		return fmt.Errorf("delete %s: %w", b.Place(name), err)
	}
	return nil
}
