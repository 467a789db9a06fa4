internal import CLinux
internal import CoveCore
internal import CoveEngine

/// Content files that the kernel reads and writes by itself (FUSE passthrough, Linux 6.9, for root only).
///
/// Their numbers belong to the connection: those that an earlier daemon of the mount registered stay good.
struct KernelBacking: BackingFiles {
    let device: Int32

    func register(_ descriptor: Int32) throws(Errno) -> UInt32 {
        UInt32(try System.retry { cove_backing_open(device, descriptor) })
    }

    func unregister(_ number: UInt32) { _ = cove_backing_close(device, number) }
}
