// SPDX-License-Identifier: Apache-2.0

package testworld

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What Intercepted hands over.
const (
	Create      = "create"
	Patch       = "patch"
	PatchStatus = "patch status of"
	Delete      = "delete"
)

// Intercepted is a client whose writes are made by a function, which may refuse them or fail after they had their effect.
type Intercepted struct {
	client.Client

	Write func(verb string, o client.Object, write func() error) error
}

// Create creates an object.
func (c *Intercepted) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return c.Write(Create, o, func() error { return c.Client.Create(ctx, o, opts...) })
}

// Patch changes an object.
func (c *Intercepted) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return c.Write(Patch, o, func() error { return c.Client.Patch(ctx, o, p, opts...) })
}

// Delete deletes an object.
func (c *Intercepted) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return c.Write(Delete, o, func() error { return c.Client.Delete(ctx, o, opts...) })
}

// Status changes the status of objects.
func (c *Intercepted) Status() client.SubResourceWriter {
	return &interceptedStatus{c.Client.Status(), c.Write}
}

type interceptedStatus struct {
	client.SubResourceWriter

	write func(verb string, o client.Object, write func() error) error
}

// Patch changes the status of an object.
func (c *interceptedStatus) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	return c.write(PatchStatus, o, func() error { return c.SubResourceWriter.Patch(ctx, o, p, opts...) })
}
