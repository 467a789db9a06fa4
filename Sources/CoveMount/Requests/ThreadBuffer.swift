internal import Glibc

/// Memory of the calling thread for building one answer; it grows to what was asked for and goes with the thread.
enum ThreadBuffer {
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key) { $0?.deallocate() }
        return key
    }()

    /// The capacity is kept in front of the bytes, in a page of its own: the kernel copies whole pages to whole pages.
    private static let headerSize = 4096

    /// Gives `count` uninitialized bytes, valid until the thread asks again.
    static func bytes(_ count: Int) -> UnsafeMutableRawBufferPointer {
        if let block = pthread_getspecific(key), block.load(as: Int.self) >= count {
            return UnsafeMutableRawBufferPointer(start: block + headerSize, count: count)
        }
        return grow(to: count)
    }

    private static func grow(to count: Int) -> UnsafeMutableRawBufferPointer {
        pthread_getspecific(key)?.deallocate()
        let capacity = max(count, 128 << 10)
        let block = UnsafeMutableRawPointer.allocate(byteCount: headerSize + capacity, alignment: headerSize)
        block.storeBytes(of: capacity, as: Int.self)
        pthread_setspecific(key, block)
        return UnsafeMutableRawBufferPointer(start: block + headerSize, count: count)
    }
}
