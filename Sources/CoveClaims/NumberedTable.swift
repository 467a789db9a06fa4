/// Values by numbers that only grow: found as in a dictionary, and gone through in their order a part at a time, while some
/// come and others go.
package struct NumberedTable<Value> {
    private var entries: [Int: Value] = [:]
    /// All numbers in their order, and some whose values are gone.
    private var order: [Int] = []

    package var count: Int { entries.count }
    package var isEmpty: Bool { entries.isEmpty }
    /// All values, in any order.
    package var values: Dictionary<Int, Value>.Values { entries.values }
    /// All numbers, in any order.
    package var keys: Dictionary<Int, Value>.Keys { entries.keys }
    /// How many numbers are kept, with those whose values are gone.
    var orderCount: Int { order.count }

    package subscript(number: Int) -> Value? {
        get { entries[number] }
        set {
            if let newValue {
                if entries.updateValue(newValue, forKey: number) == nil { insert(number) }
            } else if entries.removeValue(forKey: number) != nil {
                if entries.isEmpty {
                    order.removeAll(keepingCapacity: order.count < 1024)
                } else if order.count > 2 * entries.count + 64 {
                    order = order.filter { entries[$0] != nil }
                }
            }
        }
    }

    /// The values of at most `count` numbers that follow a number, and the last of these numbers; nil at the end.
    ///
    /// A part may be empty before the end: it takes no longer than its count, however many values are gone.
    package func part(after number: Int, count: Int) -> (values: [Value], last: Int)? {
        let start = place(after: number)
        guard start < order.count else { return nil }
        let numbers = order[start..<min(order.count, start + count)]
        guard let last = numbers.last else { return nil }
        return (numbers.compactMap { entries[$0] }, last)
    }

    private mutating func insert(_ number: Int) {
        guard let last = order.last, number <= last else {
            order.append(number)
            return
        }
        // Only what is restored comes out of its turn.
        let place = place(after: number)
        if place == 0 || order[place - 1] != number { order.insert(number, at: place) }
    }

    /// Where the first greater number is.
    private func place(after number: Int) -> Int {
        var (low, high) = (0, order.count)
        while low < high {
            let middle = low + (high - low) / 2
            if order[middle] <= number { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
