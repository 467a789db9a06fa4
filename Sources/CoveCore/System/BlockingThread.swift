internal import Glibc

/// Threads for work that blocks, so that Swift's cooperative pool never does.
public enum BlockingThread {
    /// pthread_create(3), detached: runs the body once on a thread of its own.
    ///
    /// Throws EAGAIN when there are too many.
    public static func start(stackSize: Int = 512 << 10, _ body: @escaping @Sendable () -> Void) throws(Errno) {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        pthread_attr_setstacksize(&attributes, stackSize)
        let box = Unmanaged.passRetained(Body(body)).toOpaque()
        var thread = pthread_t()
        let error = pthread_create(&thread, &attributes, threadMain, box)
        if error != 0 {
            Unmanaged<Body>.fromOpaque(box).release()
            throw Errno(error)
        }
    }

    /// Runs asynchronous work and blocks the calling thread, which must not be one of Swift's own, until it is done.
    public static func wait<Value: Sendable>(for work: @escaping @Sendable () async -> Value) -> Value {
        let latch = Latch<Value>()
        Task { latch.open(with: await work()) }
        return latch.wait()
    }
}

/// What a new thread is to run, boxed to travel through C.
private final class Body {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

private func threadMain(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let argument else { return nil }
    Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().run()
    return nil
}

/// A value that one thread waits for and another one brings.
private final class Latch<Value: Sendable>: @unchecked Sendable {
    private var mutex = pthread_mutex_t()
    private var condition = pthread_cond_t()
    private var value: Value?

    init() {
        pthread_mutex_init(&mutex, nil)
        pthread_cond_init(&condition, nil)
    }

    deinit {
        pthread_cond_destroy(&condition)
        pthread_mutex_destroy(&mutex)
    }

    func open(with newValue: Value) {
        pthread_mutex_lock(&mutex)
        value = newValue
        pthread_cond_signal(&condition)
        pthread_mutex_unlock(&mutex)
    }

    func wait() -> Value {
        pthread_mutex_lock(&mutex)
        defer { pthread_mutex_unlock(&mutex) }
        while true {
            if let value { return value }
            pthread_cond_wait(&condition, &mutex)
        }
    }
}
