internal import CFuse
internal import CoveCore
internal import CoveEngine
internal import Glibc

/// Reads up to this size are copied through the thread's own buffer: below it, a copy costs less than three system calls.
private let copiedReadLimit = 64 << 10

extension Request {
    /// Answers a READ with the bytes that the result's descriptor holds at the offset.
    consuming func reply(read result: ReadResult, at offset: Int64) {
        if result.count == 0 {
            reply(bytes: UnsafeRawBufferPointer(start: nil, count: 0))
        } else if result.count <= copiedReadLimit || result.count > connection.spliceLimit {
            replyCopying(result, at: offset)
        } else {
            replySplicing(result, at: offset)
        }
    }

    private consuming func replyCopying(_ result: ReadResult, at offset: Int64) {
        let buffer = ThreadBuffer.bytes(result.count)
        do throws(Errno) {
            let count = try withExtendedLifetime(result) { () throws(Errno) in
                try System.pread(result.descriptor, buffer, offset)
            }
            reply(bytes: UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        } catch {
            fail(error)
        }
    }

    private consuming func replySplicing(_ result: ReadResult, at offset: Int64) {
        var vector = fuse_bufvec(descriptor: result.descriptor, offset: offset, count: result.count)
        withExtendedLifetime(result) {
            _ = fuse_reply_data(raw, &vector, FUSE_BUF_SPLICE_MOVE)
        }
        discard self
    }
}

extension fuse_bufvec {
    /// One buffer that is a part of a file, as FUSE_BUFVEC_INIT makes one that is memory.
    init(descriptor: Int32, offset: Int64, count: Int) {
        let flags = fuse_buf_flags(rawValue: FUSE_BUF_IS_FD.rawValue | FUSE_BUF_FD_SEEK.rawValue)
        let buffer = fuse_buf(size: count, flags: flags, mem: nil, fd: descriptor, pos: off_t(offset))
        self.init(count: 1, idx: 0, off: 0, buf: buffer)
    }
}
