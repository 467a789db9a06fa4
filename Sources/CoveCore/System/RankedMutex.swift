internal import Glibc
public import Synchronization

/// A mutex with a place in the order in which locks are taken.
///
/// A thread that holds a lock may take only those of a higher rank: then no two threads can wait for each other. Debug builds
/// check that, and end the process where it is not so; release builds have no rank and no check.
public struct RankedMutex<Rank: LockRank, Value: ~Copyable>: ~Copyable, Sendable {
    @usableFromInline let mutex: Mutex<Value>
    #if DEBUG
    @usableFromInline let rank: Rank
    #endif

    /// Makes an open mutex around a value.
    @inlinable public init(_ rank: Rank, _ value: consuming sending Value) {
        mutex = Mutex(value)
        #if DEBUG
        self.rank = rank
        #endif
    }

    /// Waits for the mutex and runs the body with it.
    @inlinable public borrowing func withLock<Result: ~Copyable, Failure>(
        _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        #if DEBUG
        HeldLocks.enter(rank.rawValue, "\(rank)", waits: true)
        defer { HeldLocks.leave() }
        #endif
        return try mutex.withLock(body)
    }

    /// Runs the body with the mutex where that is free; else nil.
    ///
    /// Whoever does not wait may come out of order.
    @inlinable public borrowing func withLockIfAvailable<Result: ~Copyable, Failure>(
        _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result? {
        #if DEBUG
        HeldLocks.enter(rank.rawValue, "\(rank)", waits: false)
        defer { HeldLocks.leave() }
        #endif
        return try mutex.withLockIfAvailable(body)
    }
}

/// The order of a module's locks: those with the lower numbers are taken first.
public protocol LockRank: Sendable, RawRepresentable<UInt8> {}

#if DEBUG
/// The locks that the calling thread holds, innermost last.
public enum HeldLocks {
    private static let capacity = 32

    private struct Stack {
        var count = 0
        var ranks: InlineArray<32, UInt8> = .init(repeating: 0)
    }

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        precondition(pthread_key_create(&key, { free($0) }) == 0)
        return key
    }()

    private static var stack: UnsafeMutablePointer<Stack> {
        if let known = pthread_getspecific(key) { return known.assumingMemoryBound(to: Stack.self) }
        // Of malloc's, since the end of the thread gives it to free.
        guard let memory = malloc(MemoryLayout<Stack>.size) else { fatalError("no memory") }
        let made = memory.bindMemory(to: Stack.self, capacity: 1)
        made.initialize(to: Stack())
        pthread_setspecific(key, memory)
        return made
    }

    /// Notes a lock before it is taken; ends the process where that is out of order.
    public static func enter(_ rank: UInt8, _ name: @autoclosure () -> String, waits: Bool) {
        let stack = stack
        var highest: UInt8?
        for index in 0..<stack.pointee.count { highest = max(highest ?? 0, stack.pointee.ranks[index]) }
        if waits, let highest, highest >= rank {
            fatalError("the lock \(name()) of rank \(rank) is taken inside one of rank \(highest)")
        }
        precondition(stack.pointee.count < capacity)
        stack.pointee.ranks[stack.pointee.count] = rank
        stack.pointee.count += 1
    }

    /// Notes that the lock taken last is free again.
    public static func leave() { stack.pointee.count -= 1 }
}
#endif
