internal import Glibc

/// How many bytes of content the other side takes now; who sends waits here, on a thread that may block.
final class CreditGate: @unchecked Sendable {
    private var mutex = pthread_mutex_t()
    private var condition = pthread_cond_t()
    private var room: Int
    private var isClosed = false

    init(room: Int) {
        self.room = room
        pthread_mutex_init(&mutex, nil)
        pthread_cond_init(&condition, nil)
    }

    deinit {
        pthread_cond_destroy(&condition)
        pthread_mutex_destroy(&mutex)
    }

    /// Waits until some bytes may go, and takes at most `count` of the room; nil once the gate is closed.
    func take(_ count: Int) -> Int? {
        pthread_mutex_lock(&mutex)
        defer { pthread_mutex_unlock(&mutex) }
        while room <= 0, !isClosed { pthread_cond_wait(&condition, &mutex) }
        if isClosed { return nil }
        let taken = min(count, room)
        room -= taken
        return taken
    }

    /// The other side takes more; false for what is no number of bytes that could have been under way.
    func add(_ count: Int) -> Bool {
        pthread_mutex_lock(&mutex)
        defer { pthread_mutex_unlock(&mutex) }
        guard count > 0, count <= WireCall.window, room <= WireCall.window - count else { return false }
        room += count
        pthread_cond_broadcast(&condition)
        return true
    }

    /// Nothing goes any more.
    func close() {
        pthread_mutex_lock(&mutex)
        isClosed = true
        pthread_cond_broadcast(&condition)
        pthread_mutex_unlock(&mutex)
    }
}
