internal import CLinux
internal import Glibc
internal import Synchronization

/// What a daemon has in hand, in memory that outlives it: when two have died within a minute, the next one keeps off it.
///
/// Layout, in words of 64 bits: a version; how many requests were refused; then, twice, what is in hand now and what was at
/// the death before: requests (`requestSlots` pairs of a print, 0 where there is none, and a number), and calls of the
/// provider (`callSlots` texts of `callWords`, the first byte of each its length).
public final class WorkLedger: Sendable {
    private static let version: UInt64 = 0x434F_5645_574F_0001
    /// How many requests can be in hand at a time.
    public static let requestSlots = 64
    private static let callSlots = 64
    private static let callWords = 32
    private static let half = requestSlots * 2 + callSlots * callWords
    private static let headerWords = 8
    private static let size = (headerWords + 2 * half) * 8

    /// The memory's descriptor, for whoever keeps it.
    public let descriptor: Int32
    /// True for a daemon that follows two that died within a minute.
    public let isCareful: Bool
    /// What that daemon answers with an error.
    public let suspects: Suspects
    private nonisolated(unsafe) let words: UnsafeMutablePointer<UInt64>
    private let state: Mutex<State>

    /// Requests that may have ended a daemon.
    public struct Suspects: Sendable, Equatable {
        /// What the same request looks like when it comes again.
        public var prints: [UInt64] = []
        /// Numbers of requests that the kernel sends again.
        public var numbers: [UInt64] = []
        /// Nothing is known: whatever the kernel sends again.
        public var areAllResent = false
        /// A program's own next attempt is one of them, too.
        public var includesNew = false
    }

    private struct State {
        var free: [Int]
        var setAside: [[UInt8]]
        var isHeld: Bool
    }

    /// Makes an empty ledger, or goes on with that of an earlier daemon, which is read and emptied.
    ///
    /// One that this program does not understand is emptied.
    public init(inherited: Int32? = nil, isCareful: Bool = false) throws(Errno) {
        if let inherited {
            descriptor = inherited
        } else {
            descriptor = try System.retry { cove_memfd_create("cove-work") }
        }
        try System.ftruncate(descriptor, Int64(Self.size))
        let address = mmap(nil, Self.size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
        guard let address, address != MAP_FAILED else { throw .current }
        words = address.bindMemory(to: UInt64.self, capacity: Self.size / 8)
        let isKnown = words[0] == Self.version
        let now = isKnown ? Self.read(words + Self.headerWords) : Hand()
        let before = isKnown ? Self.read(words + Self.headerWords + Self.half) : Hand()
        self.isCareful = isCareful
        suspects = isCareful ? Self.suspects(now, before) : Suspects()
        let both = now.calls.filter { before.calls.contains($0) }
        state = Mutex(
            State(
                free: Array((0..<Self.callSlots).reversed()),
                setAside: isCareful ? (both.isEmpty ? now.calls : both) : [],
                isHeld: isCareful
            )
        )
        let hands = words + Self.headerWords
        if isKnown {
            (hands + Self.half).update(from: hands, count: Self.half)
        } else {
            (hands + Self.half).update(repeating: 0, count: Self.half)
        }
        hands.update(repeating: 0, count: Self.half)
        words[1] = 0
        words[0] = Self.version
    }

    deinit {
        munmap(words, Self.size)
        System.close(descriptor)
    }

    /// The pairs in which requests are noted.
    public var requests: UnsafeMutablePointer<UInt64> { words + Self.headerWords }

    /// Where refused requests are counted.
    public var refusals: UnsafeMutablePointer<UInt64> { words + 1 }

    /// How many requests were answered with an error.
    public var refusedRequests: Int { Int(truncatingIfNeeded: cove_load_acquire(words + 1)) }

    // MARK: what may have ended a daemon

    private struct Hand {
        var requests: [(print: UInt64, number: UInt64)] = []
        var calls: [[UInt8]] = []
    }

    private static func read(_ words: UnsafeMutablePointer<UInt64>) -> Hand {
        var hand = Hand()
        for slot in 0..<requestSlots where words[slot * 2] != 0 {
            hand.requests.append((words[slot * 2], words[slot * 2 + 1]))
        }
        for slot in 0..<callSlots {
            let text = Self.text(words + requestSlots * 2, slot)
            if text[0] > 0 { hand.calls.append(Array(text[1..<1 + Int(text[0])])) }
        }
        return hand
    }

    private static func text(_ calls: UnsafeMutablePointer<UInt64>, _ slot: Int) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(start: calls + slot * callWords, count: callWords * 8)
    }

    private static func suspects(_ now: Hand, _ before: Hand) -> Suspects {
        var suspects = Suspects()
        let prints = Set(now.requests.map(\.print)).intersection(before.requests.map(\.print))
        // Where a call was at work both times it may have been that as well.
        suspects.includesNew = !now.calls.contains { before.calls.contains($0) }
        suspects.prints = prints.sorted()
        if prints.isEmpty { suspects.numbers = now.requests.map(\.number) }
        suspects.areAllResent = now.requests.isEmpty && now.calls.isEmpty
        return suspects
    }

    // MARK: calls of the provider

    /// What is longer is known by its end.
    private static func noted(_ path: RemotePath) -> [UInt8] {
        path.isRoot ? [0x2F] : Array(path.bytes.suffix(callWords * 8 - 1))
    }

    /// Notes that a call on a path begins; nil when there are too many.
    func begin(_ path: RemotePath) -> Int? {
        guard let slot = state.withLock({ $0.free.popLast() }) else { return nil }
        let bytes = Self.noted(path)
        let text = Self.text(requests + Self.requestSlots * 2, slot)
        text[1...].copyBytes(from: bytes)
        text[0] = UInt8(bytes.count)
        return slot
    }

    /// Notes that it is over.
    func end(_ slot: Int) {
        Self.text(requests + Self.requestSlots * 2, slot)[0] = 0
        state.withLock { $0.free.append(slot) }
    }

    /// True for a path that is to be kept off.
    func isSetAside(_ path: RemotePath) -> Bool {
        state.withLock { !$0.setAside.isEmpty && $0.setAside.contains(Self.noted(path)) }
    }

    /// What is kept off.
    public var setAside: [String] { setAsidePaths.map { String(decoding: $0, as: UTF8.self) }.sorted() }

    /// The same as it is noted: the ends of paths.
    public var setAsidePaths: [[UInt8]] { state.withLock { $0.setAside } }

    /// Keeps off more, which earlier daemons of the account have set aside.
    public func setAside(_ paths: [[UInt8]]) {
        state.withLock { state in
            for path in paths where !state.setAside.contains(path) { state.setAside.append(path) }
        }
    }

    /// A person wants it tried again.
    public func forgetSetAside() { state.withLock { $0.setAside = [] } }

    /// True until a person has transfers go on.
    public var isHeld: Bool { state.withLock { $0.isHeld } }

    /// A person has transfers go on.
    public func goOn() { state.withLock { $0.isHeld = false } }
}
