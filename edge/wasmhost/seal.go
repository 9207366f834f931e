package wasmhost

import (
	"context"
	"errors"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/wasm/abi"
)

// sealerKey is the key of the engine's Sealer in the context of an export. It is in the context because
// instances of several engines import the same functions.
type sealerKey struct{}

func withSealer(ctx context.Context, s host.Sealer) context.Context {
	return context.WithValue(ctx, sealerKey{}, s)
}

// offerSealing creates the module "verge", which guests import. Without a Sealer, its functions return
// abi.SealNotOffered.
func offerSealing(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder("verge")
	for name, do := range map[string]func(s host.Sealer, purpose string, in []byte) ([]byte, error){
		"seal": host.Sealer.Seal,
		"open": func(s host.Sealer, purpose string, in []byte) ([]byte, error) {
			claims, until, err := s.Open(purpose, in)
			out := make([]byte, 0, abi.UntilSize+len(claims))
			return append(abi.Append.Until(out, until), claims...), err
		},
		"mac": host.Sealer.MAC,
		"check_mac": func(s host.Sealer, purpose string, in []byte) ([]byte, error) {
			if len(in) < host.MACSize {
				return nil, host.ErrNotAuthentic
			}
			at := len(in) - host.MACSize
			until, err := s.CheckMAC(purpose, in[:at], in[at:])
			return abi.Append.Until(nil, until), err
		},
	} {
		offer(b, name, func(s host.Sealer, m api.Memory, args []uint64) int32 {
			purpose, ok1 := read(m, args)
			in, ok2 := read(m, args[2:])
			if !ok1 || !ok2 {
				return abi.SealFailed
			}
			out, err := do(s, string(purpose), in)
			switch {
			case errors.Is(err, host.ErrNotAuthentic):
				return abi.SealNotAuthentic
			case errors.Is(err, host.ErrKeyAwaited):
				return abi.SealKeyAwaited
			case err != nil:
				return abi.SealFailed
			case uint64(len(out)) > uint64(uint32(args[5])):
				return abi.SealTooSmall
			case !m.Write(uint32(args[4]), out):
				return abi.SealFailed
			}
			return int32(len(out))
		})
	}
	_, err := b.Instantiate(ctx)
	return err
}

// offer exports a function with six i32 parameters and one result.
func offer(
	b wazero.HostModuleBuilder, name string, do func(s host.Sealer, m api.Memory, args []uint64) int32,
) {
	six, one := make([]api.ValueType, 6), []api.ValueType{api.ValueTypeI32}
	for i := range six {
		six[i] = api.ValueTypeI32
	}
	call := func(ctx context.Context, m api.Module, stack []uint64) {
		defer func() {
			if v := recover(); v != nil {
				panic(hostPanic{v})
			}
		}()
		n := int32(abi.SealNotOffered)
		if s, _ := ctx.Value(sealerKey{}).(host.Sealer); s != nil {
			n = do(s, m.Memory(), stack)
		}
		stack[0] = api.EncodeI32(n)
	}
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(call), six, one).Export(name)
}

// maxSealed is the maximum number of bytes that a guest may seal or authenticate in one call: sixteen times
// the largest value of a store.
const maxSealed = 1 << 20

// read returns the memory at the address and with the length in the first two of args.
func read(m api.Memory, args []uint64) ([]byte, bool) {
	if uint32(args[1]) > maxSealed {
		return nil, false
	}
	return m.Read(uint32(args[0]), uint32(args[1]))
}
