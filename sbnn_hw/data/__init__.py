"""Data of one's own: folders of pictures, arrays, tables; split, scaled and named."""
