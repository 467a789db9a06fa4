internal import CoveCore

/// What is to be looked at when its time comes.
enum Deadline: Hashable {
    case question(QuestionKey)
    case claim(Int)
    case watch(Int)
    case standing(StandingKey)
    /// A name that was left is free from then on.
    case departure(RemotePath, Int)
    /// A presenter hears of a move then.
    case move(Int)
    /// The holder should have answered by then.
    case ping(session: Int, message: Int)
}

/// Deadlines in the order of their time, a binary heap.
///
/// What is over when its time comes is passed over.
struct DeadlineQueue {
    private var heap: [(time: MonotonicTime, deadline: Deadline)] = []

    /// The next time; nil when there is none.
    var next: MonotonicTime? { heap.first?.time }
    var count: Int { heap.count }

    mutating func insert(_ deadline: Deadline, at time: MonotonicTime) {
        heap.append((time, deadline))
        var child = heap.count - 1
        while child > 0, heap[child].time < heap[(child - 1) / 2].time {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// Takes the next one that is due.
    mutating func pop(until now: MonotonicTime) -> Deadline? {
        guard let first = heap.first, first.time <= now else { return nil }
        let last = heap.removeLast()
        guard !heap.isEmpty else { return first.deadline }
        heap[0] = last
        var parent = 0
        while true {
            var child = 2 * parent + 1
            guard child < heap.count else { break }
            if child + 1 < heap.count, heap[child + 1].time < heap[child].time { child += 1 }
            guard heap[child].time < heap[parent].time else { break }
            heap.swapAt(child, parent)
            parent = child
        }
        return first.deadline
    }

    /// Drops what is over.
    mutating func keep(where isNeeded: (Deadline) -> Bool) {
        let kept = heap.filter { isNeeded($0.deadline) }.sorted { $0.time < $1.time }
        heap = kept
    }
}
